// Warps, calls, variables, atomic operations, shared memory.
extern "C" __global__ void warps(const int* a, int* o){
  int t=threadIdx.x; int x=a[t]; int* p=o+t*16;
  p[0]=__shfl_xor_sync(~0u,x,5);p[1]=__shfl_up_sync(~0u,x,3);p[2]=__shfl_down_sync(~0u,x,7,16);p[3]=__shfl_sync(~0u,x,x&31);
  p[4]=__ballot_sync(~0u,x&1);p[5]=__any_sync(~0u,x>100);p[6]=__all_sync(~0u,x>=0);p[7]=__match_any_sync(~0u,x&3);
  int pr; p[8]=__match_all_sync(~0u,x>>31,&pr);p[9]=pr;p[10]=__reduce_add_sync(~0u,x);p[11]=__reduce_max_sync(~0u,x);
  if(t&1){p[12]=__activemask();} else {p[12]=__popc(__activemask());}
  p[13]=__syncthreads_count(x&1);p[14]=__syncthreads_and(x>=0);p[15]=__syncthreads_or(x>100);
}
__device__ __noinline__ int helper(int x,int y){ int loc[16]; for(int i=0;i<16;i++) loc[i]=x*i+y; return loc[y&15]+loc[(x+3)&15]; }
struct S { int a; double b; char c; };
__device__ __noinline__ S mk(S s,int k){ s.a+=k; s.b*=2; s.c+=1; return s; }
extern "C" __global__ void calls(const int* a, int* o, S s){
  int t=blockIdx.x*blockDim.x+threadIdx.x; int x=a[t];
  int r=helper(x,t); if(x&1) r+=helper(t,x); S q=mk(s,x); o[t]=r+q.a+(int)q.b+q.c;
}
__device__ int table[8]={1,2,3,5,8,13,21,34};
__device__ int* ptr=&table[3];
__constant__ float cst[4]={0.5f,1.5f,2.5f,3.5f};
extern "C" __global__ void globals(float* o){ int t=threadIdx.x; o[t]=table[t&7]+cst[t&3]+ptr[t&3]; atomicAdd(&table[0],1);}
extern "C" __global__ void atomics(int* i, unsigned* u, float* f, double* d, unsigned long long* l){
  int t=blockIdx.x*blockDim.x+threadIdx.x;
  atomicAdd(&i[0],t);atomicMin(&i[1],-t);atomicMax(&i[2],t);atomicAnd(&u[0],~(1u<<(t&31)));atomicOr(&u[1],1u<<(t&31));atomicXor(&u[2],t);
  atomicInc(&u[3],9);atomicDec(&u[4],9);atomicAdd(f,0.5f);atomicAdd(d,0.25);atomicAdd(l,(unsigned long long)t);atomicMax(l+1,(unsigned long long)t<<33);
  int old=i[3],as; do{as=old;old=atomicCAS(&i[3],as,as+2);}while(as!=old);
  __shared__ unsigned long long sl; __shared__ float sf; __shared__ int hist[16];
  if(threadIdx.x==0){sl=0;sf=0;} if(threadIdx.x<16)hist[threadIdx.x]=0; __syncthreads();
  atomicAdd(&sl,1ull<<32|1);atomicAdd(&sf,1.0f);atomicAdd(&hist[t&15],1); __syncthreads();
  if(threadIdx.x==0){atomicAdd(l+2,sl);atomicAdd(f+1,sf);} if(threadIdx.x<16)atomicAdd(&i[4+threadIdx.x],hist[threadIdx.x]);
}
extern "C" __global__ void sw(const int*a,int*o){int t=threadIdx.x; int r=0; switch(a[t]){case 0:r=5;break;case 1:r=t*3;break;case 2:r=t*t;break;case 3:r=7-t;break;case 4:r=t^99;break;case 5:r=t<<2;break;case 6:r=-t;break;case 7: for(int k=0;k<t;k++)r+=k;break;default:r=-1;} o[t]=r;}
template<int N> __global__ void red(const float* a,float* o,int n){ __shared__ float s[N]; int t=threadIdx.x; float v=0; for(int i=t;i<n;i+=N)v+=a[i]; s[t]=v; __syncthreads(); for(int k=N/2;k>0;k/=2){ if(t<k)s[t]+=s[t+k]; __syncthreads(); } if(t==0)*o=s[0]; }
template __global__ void red<256>(const float*,float*,int);
extern "C" __global__ void transpose(const float* a,float* o){ __shared__ float s[32][33]; int x=threadIdx.x,y=threadIdx.y; for(int k=0;k<32;k+=8) s[y+k][x]=a[(blockIdx.y*32+y+k)*64+blockIdx.x*32+x]; __syncthreads(); for(int k=0;k<32;k+=8) o[(blockIdx.x*32+y+k)*64+blockIdx.y*32+x]=s[x][y+k]; }
extern "C" __global__ void dyn(const unsigned char*a, short*o, int n){ extern __shared__ char buf[]; short*s=(short*)buf; int t=threadIdx.x; s[t]=a[t]; __syncthreads(); o[t]=s[n-1-t]; }
