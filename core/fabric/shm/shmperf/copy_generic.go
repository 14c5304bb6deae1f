//go:build !amd64

package shmperf

import "encoding/binary"

// nontemporal reports whether copyAround bypasses the caches.
const nontemporal = false

func copyAround(dst, src []byte) { copy(dst, src) }

func demoteLine(*byte) {}

// readLines loads every byte of b, which is whole cache lines.
func readLines(b []byte) {
	var sum uint64
	for ; len(b) >= 64; b = b[64:] {
		for i := 0; i < 64; i += 8 {
			sum ^= binary.NativeEndian.Uint64(b[i:])
		}
	}
	read += sum
}

// read keeps the compiler from leaving out the loads.
var read uint64
