package devmem

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"transportbench/plugins/tcpx/internal/devmem/devmemtest"
)

func TestControl(t *testing.T) {
	const id, size = 5, 1 << 20
	whole := func(parts ...[]byte) (all []byte) {
		for _, p := range parts {
			all = append(all, p...)
		}
		return all
	}
	linear := devmemtest.Linear(100)
	piece := func(offset uint64, n, token uint32) []byte {
		return devmemtest.Dmabuf(offset, n, token, id)
	}
	other := devmemtest.Message(unix.SOL_SOCKET, unix.SCM_TIMESTAMP, make([]byte, 9))
	for name, c := range map[string]struct {
		control []byte
		pieces  []Piece
		err     error
	}{
		"nothing": {nil, nil, nil},
		"one":     {piece(4096, 1448, 7), []Piece{{4096, 1448, 7, false}}, nil},
		"in order": {whole(linear, piece(8192, 10, 1), other, piece(0, 4096, 2)),
			[]Piece{{0, 100, 0, true}, {8192, 10, 1, false}, {0, 4096, 2, false}}, nil},
		"to the end": {piece(size-1, 1, 7), []Piece{{size - 1, 1, 7, false}}, nil},
		"not padded": {whole(piece(0, 1, 1), other[:controlHeader+9]),
			[]Piece{{0, 1, 1, false}}, nil},
		"other binding":    {devmemtest.Dmabuf(0, 1, 1, id+1), nil, ErrBinding},
		"over the end":     {piece(size, 1, 7), nil, ErrControl},
		"far over the end": {piece(1<<64-1, 2, 7), nil, ErrControl},
		"too large":        {piece(0, size+1, 7), nil, ErrControl},
		"cut body": {devmemtest.Message(unix.SOL_SOCKET, unix.SCM_DEVMEM_DMABUF,
			make([]byte, 20)), nil, ErrControl},
		"cut header":        {piece(0, 1, 1)[:12], nil, ErrControl},
		"cut message":       {piece(0, 1, 1)[:32], nil, ErrControl},
		"length of nothing": {make([]byte, controlHeader), nil, ErrControl},
		"too many": {whole(piece(0, 1, 1), piece(0, 1, 2), piece(0, 1, 3), piece(0, 1, 4)),
			[]Piece{{0, 1, 1, false}, {0, 1, 2, false}, {0, 1, 3, false}}, ErrPieces},
	} {
		pieces := make([]Piece, 3)
		n, err := Control(c.control, id, size, pieces)
		require.ErrorIs(t, err, c.err, name)
		require.Equal(t, len(c.pieces), n, name)
		require.ElementsMatch(t, c.pieces, pieces[:n], name)
		require.Zero(t, testing.AllocsPerRun(10,
			func() { _, _ = Control(c.control, id, size, pieces) }), name)
	}
}

// FuzzControl: for any bytes, the pieces are within the dmabuf, and a parsed message parses
// the same after it is written again.
func FuzzControl(f *testing.F) {
	f.Add(devmemtest.Dmabuf(4096, 1448, 7, 3), uint32(3), uint64(1<<20))
	f.Add(devmemtest.Linear(66), uint32(3), uint64(1<<20))
	f.Add(append(devmemtest.Message(unix.SOL_SOCKET, unix.SCM_TIMESTAMP, make([]byte, 16)),
		make([]byte, 15)...), uint32(0), uint64(0))
	f.Fuzz(func(t *testing.T, control []byte, binding uint32, size uint64) {
		pieces := make([]Piece, 8)
		n, _ := Control(control, binding, size, pieces)
		var again []byte
		for i, p := range pieces[:n] {
			if p.Linear {
				again = append(again, devmemtest.Linear(p.Size)...)
				p.Offset, p.Token = 0, 0
				pieces[i] = p
				continue
			}
			if uint64(p.Size) > size || p.Offset > size-uint64(p.Size) {
				t.Fatalf("%+v is outside of %d bytes", p, size)
			}
			again = append(again, devmemtest.Dmabuf(p.Offset, p.Size, p.Token, binding)...)
		}
		same := make([]Piece, 8)
		m, err := Control(again, binding, size, same)
		if err != nil || m != n || [8]Piece(same) != [8]Piece(
			append(append([]Piece{}, pieces[:n]...), make([]Piece, 8-n)...)) {
			t.Fatalf("%+v became %+v: %v", pieces[:n], same[:m], err)
		}
	})
}
