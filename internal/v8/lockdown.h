// What the worker's constructor achieved, as bits.
#pragma once

enum {
  DAYBOOK_LAYER_PDEATHSIG = 1 << 0,
  DAYBOOK_LAYER_UNDUMPABLE = 1 << 1,
  DAYBOOK_LAYER_NO_NEW_PRIVS = 1 << 2,
  DAYBOOK_LAYER_CLOSED_FILES = 1 << 3,
  DAYBOOK_LAYER_RLIMITS = 1 << 4,
  DAYBOOK_LAYER_RLIMIT_DATA = 1 << 5,
  DAYBOOK_LAYER_LANDLOCK = 1 << 6,
};

int daybook_lockdown_layers(void);
