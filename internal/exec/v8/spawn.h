// Starts a process in its own namespaces; see spawn.c.
#pragma once

// The process to start. The caller keeps ownership of every string and list.
struct daybook_spawn {
  const char *path, *dir;
  char *const *argv; // ends with NULL
  int files[3];      // standard input, output and error
  const char *uid_map, *gid_map; // lines of /proc/PID/uid_map and gid_map
};

// Returns the process id, or a negated errno.
int daybook_spawn(const struct daybook_spawn *s, int namespaces);
