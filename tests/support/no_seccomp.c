// qemu-user emulates no seccomp, and a plug-in's process runs without its filter on no account. Preloaded where camd
// is tested under emulation, this takes the filter and forgets it, so that all else of such a process is tested.
int seccomp_load(const void* filter) {
  (void)filter;
  return 0;
}
