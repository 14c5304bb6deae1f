package erpc

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestHeaderRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := header{
			request: rapid.Uint32().Draw(t, "request"),
			session: rapid.Uint16().Draw(t, "session"),
			kind:    kind(rapid.IntRange(1, int(kindPong)).Draw(t, "kind")),
			number:  rapid.Uint32Range(0, 1<<numberBits-1).Draw(t, "number"),
			size:    rapid.Uint32Range(0, maxMessage).Draw(t, "size"),
		}
		var b [headerSize]byte
		h.put(&b)
		require.Equal(t, h, parse(b[:]))
	})
}

// TestChecksum: the checksum of a packet is valid, and invalid with another key or any bit flipped.
func TestChecksum(t *testing.T) {
	for _, size := range []int{0, 1, 7, 32, longBody - 1, longBody, 1456} {
		body := make([]byte, size)
		for i := range body {
			body[i] = byte(i)
		}
		var head [headerSize]byte
		(&header{request: 77, session: 3, kind: kindResponse, number: 9, size: uint32(size)}).put(
			&head)
		putChecksum(0xabcdef, &head, body)
		packet := append(head[:], body...)
		require.True(t, validChecksum(0xabcdef, packet[:headerSize], packet[headerSize:]))
		require.False(t, validChecksum(0xabcdee, packet[:headerSize], packet[headerSize:]))
		for bit := range 8 * len(packet) {
			packet[bit/8] ^= 1 << (bit % 8)
			require.False(t, validChecksum(0xabcdef, packet[:headerSize], packet[headerSize:]),
				"bit %d flipped, body of %d bytes", bit, size)
			packet[bit/8] ^= 1 << (bit % 8)
		}
	}
}
