// A plug-in of qemu-user: prints how many instructions a program executed, all its threads together, and, with the argument
// `bytes=on`, how many bytes its instructions loaded and stored. It prints both as well whenever the program asks for its
// parent (getppid), which says so on purpose.
// Debian has no package with qemu-plugin.h; what is used of it stands here (version 1 of the interface).
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef uint64_t qemu_plugin_id_t;
typedef uint32_t qemu_plugin_meminfo_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_info_t;
enum { kAddToCounter = 0 };
enum { kNoRegisters = 0 };
enum { kLoadsAndStores = 3 };
enum { kGetppid = 173 };  // of 64-bit ARM

extern void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t, void (*)(qemu_plugin_id_t, struct qemu_plugin_tb*));
extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb*);
extern struct qemu_plugin_insn* qemu_plugin_tb_get_insn(const struct qemu_plugin_tb*, size_t);
extern void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb*, int, void*, uint64_t);
extern void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn*,
                                             void (*)(unsigned, qemu_plugin_meminfo_t, uint64_t, void*), int, int,
                                             void*);
extern void qemu_plugin_register_vcpu_syscall_cb(qemu_plugin_id_t,
                                                 void (*)(qemu_plugin_id_t, unsigned, int64_t, uint64_t, uint64_t, uint64_t,
                                                          uint64_t, uint64_t, uint64_t, uint64_t, uint64_t));
extern unsigned qemu_plugin_mem_size_shift(qemu_plugin_meminfo_t);
extern void qemu_plugin_register_atexit_cb(qemu_plugin_id_t, void (*)(qemu_plugin_id_t, void*), void*);

__attribute__((visibility("default"))) int qemu_plugin_version = 1;

static uint64_t count, bytes;  // threads that run at once may lose some: count programs of one thread
static int counts_bytes;

static void accessed(unsigned processor, qemu_plugin_meminfo_t access, uint64_t address, void* unused) {
  (void)processor;
  (void)address;
  (void)unused;
  bytes += (uint64_t)1 << qemu_plugin_mem_size_shift(access);
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb* block) {
  (void)id;
  const size_t instructions = qemu_plugin_tb_n_insns(block);
  qemu_plugin_register_vcpu_tb_exec_inline(block, kAddToCounter, &count, instructions);
  for (size_t i = 0; counts_bytes && i < instructions; ++i) {
    qemu_plugin_register_vcpu_mem_cb(qemu_plugin_tb_get_insn(block, i), accessed, kNoRegisters, kLoadsAndStores, NULL);
  }
}

static void print(void) {
  fprintf(stderr, "instructions: %" PRIu64 "\n", count);
  if (counts_bytes) fprintf(stderr, "bytes: %" PRIu64 "\n", bytes);
}

static void called(qemu_plugin_id_t id, unsigned processor, int64_t number, uint64_t a1, uint64_t a2, uint64_t a3,
                   uint64_t a4, uint64_t a5, uint64_t a6, uint64_t a7, uint64_t a8) {
  (void)id, (void)processor, (void)a1, (void)a2, (void)a3, (void)a4, (void)a5, (void)a6, (void)a7, (void)a8;
  if (number == kGetppid) print();
}

static void ended(qemu_plugin_id_t id, void* unused) {
  (void)id;
  (void)unused;
  print();
}

__attribute__((visibility("default"))) int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info_t* info,
                                                               int argc, char** argv) {
  (void)info;
  for (int i = 0; i < argc; ++i) counts_bytes = counts_bytes || strcmp(argv[i], "bytes=on") == 0;
  qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
  qemu_plugin_register_vcpu_syscall_cb(id, called);
  qemu_plugin_register_atexit_cb(id, ended, NULL);
  return 0;
}
