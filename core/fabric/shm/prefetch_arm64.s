#include "textflag.h"

// func PrefetchWrite(p *uint32)
TEXT ·PrefetchWrite(SB), NOSPLIT, $0-8
	MOVD p+0(FP), R0
	PRFM (R0), PSTL1KEEP
	RET
