#include "textflag.h"

// func Pause()
TEXT ·Pause(SB), NOSPLIT, $0-0
	// YIELD is a no-op on cores without simultaneous multithreading, which is most. ISB waits until the
	// pipeline is empty, for some tens of cycles, as PAUSE does on amd64.
	ISB	$15
	RET
