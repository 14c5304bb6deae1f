package control

import (
	"crypto/rand"
	"encoding/binary"
)

// NewNonce returns 64 random bits by which the peers of a worker recognise it, never 0. Only its
// peers learn them, from its address, and no one else can guess them.
func NewNonce() uint64 {
	for {
		var b [8]byte
		_, _ = rand.Read(b[:]) // never fails
		if nonce := binary.NativeEndian.Uint64(b[:]); nonce != 0 {
			return nonce
		}
	}
}
