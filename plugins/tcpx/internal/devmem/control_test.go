package devmem

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// message is a control message as the kernel writes it.
func message(level, kind int, body []byte) []byte {
	b := make([]byte, controlHeader, controlHeader+len(body)+controlAlignment)
	binary.NativeEndian.PutUint64(b, uint64(controlHeader+len(body)))
	binary.NativeEndian.PutUint32(b[8:], uint32(level))
	binary.NativeEndian.PutUint32(b[12:], uint32(kind))
	b = append(b, body...)
	for len(b)%controlAlignment != 0 {
		b = append(b, 0)
	}
	return b
}

// dmabuf is a struct dmabuf_cmsg.
func dmabuf(offset uint64, size, token, id uint32) []byte {
	b := make([]byte, dmabufMessage)
	binary.NativeEndian.PutUint64(b, offset)
	binary.NativeEndian.PutUint32(b[8:], size)
	binary.NativeEndian.PutUint32(b[12:], token)
	binary.NativeEndian.PutUint32(b[16:], id)
	return b
}

func TestControl(t *testing.T) {
	const id, size = 5, 1 << 20
	whole := func(parts ...[]byte) (all []byte) {
		for _, p := range parts {
			all = append(all, p...)
		}
		return all
	}
	linear := message(unix.SOL_SOCKET, unix.SCM_DEVMEM_LINEAR, dmabuf(0, 100, 0, 0))
	piece := func(offset uint64, n, token uint32) []byte {
		return message(unix.SOL_SOCKET, unix.SCM_DEVMEM_DMABUF, dmabuf(offset, n, token, id))
	}
	other := message(unix.SOL_SOCKET, unix.SCM_TIMESTAMP, make([]byte, 9))
	for name, c := range map[string]struct {
		control []byte
		pieces  []Piece
		err     error
	}{
		"nothing":           {nil, nil, nil},
		"one":               {piece(4096, 1448, 7), []Piece{{4096, 1448, 7, false}}, nil},
		"in order":          {whole(linear, piece(8192, 10, 1), other, piece(0, 4096, 2)), []Piece{{0, 100, 0, true}, {8192, 10, 1, false}, {0, 4096, 2, false}}, nil},
		"to the end":        {piece(size-1, 1, 7), []Piece{{size - 1, 1, 7, false}}, nil},
		"not padded":        {whole(piece(0, 1, 1), other[:controlHeader+9]), []Piece{{0, 1, 1, false}}, nil},
		"other binding":     {message(unix.SOL_SOCKET, unix.SCM_DEVMEM_DMABUF, dmabuf(0, 1, 1, id+1)), nil, ErrBinding},
		"over the end":      {piece(size, 1, 7), nil, ErrControl},
		"far over the end":  {piece(1<<64-1, 2, 7), nil, ErrControl},
		"too large":         {piece(0, size+1, 7), nil, ErrControl},
		"cut body":          {message(unix.SOL_SOCKET, unix.SCM_DEVMEM_DMABUF, make([]byte, 20)), nil, ErrControl},
		"cut header":        {piece(0, 1, 1)[:12], nil, ErrControl},
		"cut message":       {piece(0, 1, 1)[:32], nil, ErrControl},
		"length of nothing": {make([]byte, controlHeader), nil, ErrControl},
		"too many":          {whole(piece(0, 1, 1), piece(0, 1, 2), piece(0, 1, 3), piece(0, 1, 4)), []Piece{{0, 1, 1, false}, {0, 1, 2, false}, {0, 1, 3, false}}, ErrPieces},
	} {
		pieces := make([]Piece, 3)
		n, err := Control(c.control, id, size, pieces)
		require.ErrorIs(t, err, c.err, name)
		require.Equal(t, len(c.pieces), n, name)
		require.ElementsMatch(t, c.pieces, pieces[:n], name)
		require.Zero(t, testing.AllocsPerRun(10, func() { _, _ = Control(c.control, id, size, pieces) }), name)
	}
}

// FuzzControl: whatever the bytes are, the pieces lie within the dmabuf, and what was
// taken reads the same when it is written again.
func FuzzControl(f *testing.F) {
	f.Add(message(unix.SOL_SOCKET, unix.SCM_DEVMEM_DMABUF, dmabuf(4096, 1448, 7, 3)), uint32(3), uint64(1<<20))
	f.Add(message(unix.SOL_SOCKET, unix.SCM_DEVMEM_LINEAR, dmabuf(0, 66, 0, 0)), uint32(3), uint64(1<<20))
	f.Add(append(message(unix.SOL_SOCKET, unix.SCM_TIMESTAMP, make([]byte, 16)), make([]byte, 15)...), uint32(0), uint64(0))
	f.Fuzz(func(t *testing.T, control []byte, binding uint32, size uint64) {
		pieces := make([]Piece, 8)
		n, _ := Control(control, binding, size, pieces)
		var again []byte
		for _, p := range pieces[:n] {
			kind := unix.SCM_DEVMEM_DMABUF
			if p.Linear {
				kind = unix.SCM_DEVMEM_LINEAR
			} else if uint64(p.Size) > size || p.Offset > size-uint64(p.Size) {
				t.Fatalf("%+v is outside of %d bytes", p, size)
			}
			again = append(again, message(unix.SOL_SOCKET, kind, dmabuf(p.Offset, p.Size, p.Token, binding))...)
		}
		same := make([]Piece, 8)
		m, err := Control(again, binding, size, same)
		if err != nil || m != n || [8]Piece(same) != [8]Piece(append(append([]Piece{}, pieces[:n]...), make([]Piece, 8-n)...)) {
			t.Fatalf("%+v became %+v: %v", pieces[:n], same[:m], err)
		}
	})
}
