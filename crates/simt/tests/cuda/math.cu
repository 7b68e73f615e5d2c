// Functions of CUDA's library, which NVRTC inlines, and arithmetic.
extern "C" __global__ void fmath(const float* a, const float* b, float* o, int n){
  int i=blockIdx.x*blockDim.x+threadIdx.x; if(i>=n) return; float x=a[i],y=b[i]; float* p=o+i*40;
  p[0]=expf(x);p[1]=logf(fabsf(x));p[2]=sinf(x);p[3]=cosf(x);p[4]=tanf(x);p[5]=tanhf(x);p[6]=powf(fabsf(x),y);p[7]=asinhf(x);
  p[8]=fmodf(x,y);p[9]=remainderf(x,y);p[10]=rintf(x);p[11]=floorf(x);p[12]=ceilf(x);p[13]=truncf(x);p[14]=roundf(x);p[15]=sqrtf(fabsf(x));
  p[16]=rsqrtf(fabsf(x));p[17]=cbrtf(x);p[18]=x/y;p[19]=fmaxf(x,y);p[20]=fminf(x,y);p[21]=copysignf(x,y);p[22]=atanf(x);p[23]=atan2f(x,y);
  p[24]=sinhf(x);p[25]=expm1f(x);p[26]=log1pf(fabsf(x));p[27]=acosf(x*0.1f);p[28]=hypotf(x,y);p[29]=__expf(x);p[30]=__sinf(x);p[31]=__fdividef(x,y);
  p[32]=exp2f(x);p[33]=log2f(fabsf(x));p[34]=ldexpf(x,3);p[35]=fdimf(x,y);p[36]=(float)(int)x;p[37]=__fadd_rz(x,y);p[38]=__fmaf_ru(x,y,x);p[39]=__saturatef(x);
}
extern "C" __global__ void dmath(const double* a, const double* b, double* o, int n){
  int i=blockIdx.x*blockDim.x+threadIdx.x; if(i>=n) return; double x=a[i],y=b[i]; double* p=o+i*20;
  p[0]=exp(x);p[1]=log(fabs(x));p[2]=sin(x);p[3]=cos(x);p[4]=tanh(x);p[5]=pow(fabs(x),y);p[6]=atan(x);p[7]=fmod(x,y);p[8]=rint(x);p[9]=sqrt(fabs(x));
  p[10]=rsqrt(fabs(x));p[11]=cbrt(x);p[12]=x/y;p[13]=fmax(x,y);p[14]=(double)(long long)(x*1e6);p[15]=__dadd_rd(x,y);p[16]=__dmul_ru(x,y);p[17]=__ddiv_rz(x,y);p[18]=fma(x,y,x);p[19]=__dsqrt_ru(fabs(x));
}
extern "C" __global__ void imath(const int* a, const int* b, long long* o, int n){
  int i=blockIdx.x*blockDim.x+threadIdx.x; if(i>=n) return; int x=a[i],y=b[i]; if(y==0)y=1; unsigned ux=x,uy=y; long long lx=(long long)x*y+7, ly=y; unsigned long long ul=lx; long long* p=o+i*32;
  p[0]=x/y;p[1]=x%y;p[2]=ux/uy;p[3]=ux%uy;p[4]=lx/ly;p[5]=lx%ly;p[6]=ul/(unsigned long long)uy;p[7]=ul%(unsigned long long)uy;
  p[8]=__popc(x);p[9]=__clz(x);p[10]=__ffs(x);p[11]=__brev(x);p[12]=__popcll(lx);p[13]=__clzll(lx);p[14]=__mulhi(x,y);p[15]=__umulhi(ux,uy);
  p[16]=__mul64hi(lx,ly);p[17]=__byte_perm(x,y,0x3715);p[18]=__funnelshift_l(x,y,5);p[19]=__funnelshift_rc(x,y,40);p[20]=__dp4a(x,y,3);p[21]=min(x,y);p[22]=max(ux,uy);p[23]=abs(x);
  p[24]=(short)x/(short)(y|1);p[25]=(signed char)x;p[26]=(unsigned char)x;p[27]=(unsigned short)x*(unsigned short)y;p[28]=__sad(x,y,5u);p[29]=__hadd(x,y);p[30]=x>>(y&31);p[31]=lx<<(y&63);
}
