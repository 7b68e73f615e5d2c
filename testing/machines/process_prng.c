// `bcryptprimitives.dll` of Windows, which Wine 8 lacks and Rust's standard library imports: random bytes.
#include <windows.h>
#include <ntsecapi.h>

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE bytes, SIZE_T count) {
  return RtlGenRandom(bytes, (ULONG)count);
}
