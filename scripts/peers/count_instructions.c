// A plug-in of qemu-user: prints how many instructions a program executed, all its threads together.
// Debian has no package with qemu-plugin.h; what is used of it stands here (version 1 of the interface).
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
struct qemu_info_t;
enum { kAddToCounter = 0 };

extern void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t, void (*)(qemu_plugin_id_t, struct qemu_plugin_tb*));
extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb*);
extern void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb*, int, void*, uint64_t);
extern void qemu_plugin_register_atexit_cb(qemu_plugin_id_t, void (*)(qemu_plugin_id_t, void*), void*);

__attribute__((visibility("default"))) int qemu_plugin_version = 1;

static uint64_t count;  // threads that run at once may lose some: count programs of one thread

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb* block) {
  (void)id;
  qemu_plugin_register_vcpu_tb_exec_inline(block, kAddToCounter, &count, qemu_plugin_tb_n_insns(block));
}

static void ended(qemu_plugin_id_t id, void* unused) {
  (void)id;
  (void)unused;
  fprintf(stderr, "instructions: %" PRIu64 "\n", count);
}

__attribute__((visibility("default"))) int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info_t* info,
                                                               int argc, char** argv) {
  (void)info;
  (void)argc;
  (void)argv;
  qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
  qemu_plugin_register_atexit_cb(id, ended, NULL);
  return 0;
}
