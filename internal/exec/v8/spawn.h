// Starts a process in namespaces of its own; see spawn.c.
#pragma once

// Standard input, output and error of the process, and what its namespaces map. Every
// string and list belongs to the caller.
struct daybook_spawn {
  const char *path, *dir;
  char *const *argv; // ends with NULL
  int files[3];
  const char *uid_map, *gid_map; // lines of /proc/PID/uid_map and gid_map
};

// Returns the process id, or a negated errno.
int daybook_spawn(const struct daybook_spawn *s, int namespaces);
