// cp.async, ldmatrix and mma.sync of a matrix product of 16 by 16 by 8 halves.
extern "C" __global__ void mm(const unsigned* a,const unsigned* b,float* o){
  __shared__ __align__(16) unsigned sa[128]; int t=threadIdx.x;
  unsigned sp=(unsigned)__cvta_generic_to_shared(sa);
  asm volatile("cp.async.ca.shared.global [%0], [%1], 16;"::"r"(sp+t*16),"l"(a+t*4)); asm volatile("cp.async.commit_group;"); asm volatile("cp.async.wait_group 0;"); __syncthreads();
  unsigned r0,r1,r2,r3; asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];":"=r"(r0),"=r"(r1),"=r"(r2),"=r"(r3):"r"(sp+(t%16)*32+(t/16)*16));
  unsigned b0=b[t*2],b1=b[t*2+1]; float c0=0,c1=0,c2=0,c3=0;
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};":"+f"(c0),"+f"(c1),"+f"(c2),"+f"(c3):"r"(r0),"r"(r1),"r"(r2),"r"(r3),"r"(b0),"r"(b1));
  o[t*4]=c0;o[t*4+1]=c1;o[t*4+2]=c2;o[t*4+3]=c3;
}
