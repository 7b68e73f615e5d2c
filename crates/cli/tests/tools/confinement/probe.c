// The body of the loop of a kernel that adds: it tries what captured code may not do, by system calls of its own,
// and fails with the number of the first one that is not denied. VICTIM is a file of the user. Arguments are wrong where the call would have an
// effect: without confinement, the call fails for another reason, or does nothing.
#define CALL(number, a, b, c, d, e)                                                                  \
  ({                                                                                                 \
    register long r10 __asm__("r10") = (long)(d);                                                    \
    register long r8 __asm__("r8") = (long)(e);                                                      \
    register long r9 __asm__("r9") = 0;                                                              \
    long result;                                                                                     \
    __asm__ volatile("syscall" : "=a"(result)                                                        \
                     : "a"((long)(number)), "D"((long)(a)), "S"((long)(b)), "d"((long)(c)), "r"(r10), "r"(r8), "r"(r9) \
                     : "rcx", "r11", "memory");                                                      \
    result;                                                                                          \
  })
// EPERM, EACCES, ENOSYS.
#define IS_DENIED(result) ((result) == -1 || (result) == -13 || (result) == -38)
#define DENIED(probe, number, a, b, c, d, e) \
  if (!IS_DENIED(CALL(number, a, b, c, d, e))) return probe
#define ALLOWED(probe, number, a, b, c, d, e) \
  if (IS_DENIED(CALL(number, a, b, c, d, e))) return probe
{
  char memory[256];
  const long parent = CALL(110, 0, 0, 0, 0, 0), own = CALL(39, 0, 0, 0, 0, 0);
  // Names of the parent's files: /proc/PARENT/.
  char path[64] = "/proc/";
  int length = 6;
  for (long unit = 1000000000; unit; unit /= 10)
    if (parent >= unit) path[length++] = '0' + parent / unit % 10;
#define OF_PARENT(name) (__builtin_memcpy(path + length, "/" name, sizeof("/" name)), path)
  // Files: open, create, list.
  DENIED(1, 2, VICTIM, 0, 0, 0, 0);
  DENIED(88, 2, VICTIM, 2, 0, 0, 0);
  DENIED(2, 2, "/etc/hostname", 0, 0, 0, 0);
  DENIED(3, 257, -100, "/etc/passwd", 0, 0, 0);
  DENIED(4, 2, "/tmp/rehal-probe", 0102, 0600, 0, 0);
  DENIED(5, 2, "rehal-probe", 0102, 0600, 0, 0);
  DENIED(6, 2, "/dev/shm/rehal-probe", 0102, 0600, 0, 0);
  DENIED(7, 2, "/tmp", 020200002, 0600, 0, 0);
  DENIED(8, 2, "/", 0200000, 0, 0, 0);
  DENIED(9, 2, "/tmp", 0200000, 0, 0, 0);
  DENIED(10, 2, ".", 0200000, 0, 0, 0);
  DENIED(11, 85, "/tmp/rehal-probe", 0600, 0, 0, 0);
  // Names, modes and times of files.
  DENIED(12, 4, "/etc/passwd", memory, 0, 0, 0);
  DENIED(13, 6, "/etc/passwd", memory, 0, 0, 0);
  DENIED(14, 262, -100, "/etc/passwd", memory, 0, 0);
  DENIED(15, 262, 1, "/etc/passwd", memory, 0x1000, 0);
  DENIED(16, 332, -100, "/etc/passwd", 0, 0x7ff, memory);
  DENIED(17, 89, "/proc/1/exe", memory, 100, 0, 0);
  DENIED(18, 87, VICTIM, 0, 0, 0, 0);
  DENIED(19, 82, VICTIM, "/tmp/rehal-probe", 0, 0, 0);
  DENIED(20, 86, VICTIM, "/tmp/rehal-probe", 0, 0, 0);
  DENIED(21, 88, VICTIM, "/tmp/rehal-probe", 0, 0, 0);
  DENIED(22, 83, "/tmp/rehal-probe", 0700, 0, 0, 0);
  DENIED(23, 84, VICTIM, 0, 0, 0, 0);
  DENIED(24, 133, "/tmp/rehal-probe", 010600, 0, 0, 0);
  DENIED(25, 90, VICTIM, 0777, 0, 0, 0);
  DENIED(26, 91, 1, 0777, 0, 0, 0);
  DENIED(27, 92, VICTIM, 0, 0, 0, 0);
  DENIED(28, 280, -100, VICTIM, 0, 0, 0);
  DENIED(29, 76, VICTIM, 0, 0, 0, 0);
  DENIED(30, 188, VICTIM, "user.a", "b", 1, 0);
  DENIED(31, 254, -1, 0, 0, 0, 0);
  // Other processes.
  DENIED(32, 2, OF_PARENT("mem"), 2, 0, 0, 0);
  DENIED(33, 2, OF_PARENT("environ"), 0, 0, 0, 0);
  DENIED(34, 2, OF_PARENT("maps"), 0, 0, 0, 0);
  DENIED(35, 2, OF_PARENT("fd"), 0200000, 0, 0, 0);
  DENIED(36, 62, parent, 0, 0, 0, 0);
  DENIED(37, 62, 0, 0, 0, 0, 0);
  DENIED(38, 62, -1, 0, 0, 0, 0);
  DENIED(39, 234, parent, parent, 0, 0, 0);
  DENIED(40, 200, parent, 0, 0, 0, 0);
  DENIED(41, 129, parent, 0, memory, 0, 0);
  DENIED(42, 434, parent, 0, 0, 0, 0);
  DENIED(43, 101, 16, parent, 0, 0, 0);
  DENIED(44, 310, parent, 0, 0, 0, 0);
  DENIED(45, 311, parent, 0, 0, 0, 0);
  DENIED(46, 72, 1, 8, parent, 0, 0);
  DENIED(47, 203, parent, 8, memory, 0, 0);
  DENIED(48, 141, 0, parent, 0, 0, 0);
  DENIED(49, 312, own, parent, 0, 0, 0);
  // New processes, and a longer life than the parent's.
  {
    long child = CALL(57, 0, 0, 0, 0, 0);
    if (child == 0) CALL(231, 0, 0, 0, 0, 0);
    if (!IS_DENIED(child)) return 50;
    child = CALL(56, 17, 0, 0, 0, 0);
    if (child == 0) CALL(231, 0, 0, 0, 0, 0);
    if (!IS_DENIED(child)) return 51;
  }
  DENIED(52, 435, 0, 0, 0, 0, 0);
  DENIED(53, 59, "/nonexistent", 0, 0, 0, 0);
  DENIED(54, 322, -1, "", 0, 0, 0x1000);
  DENIED(55, 112, 0, 0, 0, 0, 0);
  DENIED(56, 109, 0, 0, 0, 0, 0);
  DENIED(57, 157, 1, 0, 0, 0, 0);
  DENIED(58, 302, 0, 7, memory, 0, 0);
  DENIED(59, 160, 7, memory, 0, 0, 0);
  // Sockets, and the user's terminal.
  DENIED(60, 41, 2, 1, 0, 0, 0);
  DENIED(61, 41, 10, 2, 0, 0, 0);
  DENIED(62, 41, 1, 1, 0, 0, 0);
  DENIED(63, 41, 16, 3, 0, 0, 0);
  DENIED(64, 53, 1, 2, 0, memory, 0);
  DENIED(65, 42, 0, memory, 16, 0, 0);
  DENIED(66, 16, 0, 0x5412, "x", 0, 0);
  // The system.
  DENIED(67, 425, 0, 0, 0, 0, 0);
  DENIED(68, 321, -1, 0, 0, 0, 0);
  DENIED(69, 298, 0, 0, -1, -1, 0);
  DENIED(70, 165, 0, 0, 0, 0, 0);
  DENIED(71, 166, "/nonexistent", 0, 0, 0, 0);
  DENIED(72, 272, 0x10000000, 0, 0, 0, 0);
  DENIED(73, 308, -1, 0, 0, 0, 0);
  DENIED(74, 161, "/nonexistent", 0, 0, 0, 0);
  DENIED(75, 250, 0, 0, 0, 0, 0);
  DENIED(76, 29, 0, 4096, 01600, 0, 0);
  DENIED(77, 68, 0, 01600, 0, 0, 0);
  DENIED(78, 240, "probe", 0, 0, 0, 0);
  DENIED(79, 323, 0, 0, 0, 0, 0);
  DENIED(80, 175, 0, 0, 0, 0, 0);
  DENIED(89, 72, 2, 4, 0, 0, 0);
  DENIED(90, 37, 0, 0, 0, 0, 0);
  DENIED(91, 38, 0, memory, 0, 0, 0);
  // What it needs: memory, its own time, its own descriptions, libraries, and questions about descriptors.
  ALLOWED(81, 9, 0, 4096, 3, 0x22, -1);
  ALLOWED(82, 228, 1, memory, 0, 0, 0);
  ALLOWED(83, 2, "/proc/self/maps", 0, 0, 0, 0);
  ALLOWED(84, 2, "/dev/null", 2, 0, 0, 0);
  ALLOWED(85, 5, 2, memory, 0, 0, 0);
  ALLOWED(86, 262, 2, "", memory, 0x1000, 0);
  ALLOWED(87, 62, own, 0, 0, 0, 0);
  binding_2[i] = binding_0[i] + binding_1[i];
}
