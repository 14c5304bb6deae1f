#include "textflag.h"

// func PrefetchWrite(p *uint32)
TEXT ·PrefetchWrite(SB), NOSPLIT, $0-8
	MOVQ p+0(FP), AX
	BYTE $0x0f; BYTE $0x0d; BYTE $0x08 // PREFETCHW (AX)
	RET

// func Prefetch(b []byte)
TEXT ·Prefetch(SB), NOSPLIT, $0-24
	MOVQ b_base+0(FP), AX
	MOVQ b_len+8(FP), CX
	ADDQ AX, CX
	ANDQ $~63, AX
	JMP  test
next:
	PREFETCHT0 (AX)
	ADDQ $64, AX
test:
	CMPQ AX, CX
	JLT  next
	RET
