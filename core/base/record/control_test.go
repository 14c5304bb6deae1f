package record

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestThreadNames(t *testing.T) {
	for name, thread := range map[string]Thread{
		"r0 daemon 0":     {Rank: 0, Daemon: 0, Client: -1},
		"r12 client 1023": {Rank: 12, Daemon: -1, Client: 1023},
		"r1023 c1023":     {Rank: 1023, Daemon: -1, Client: 1023},
		"r1023 d1023":     {Rank: 1023, Daemon: 1023, Client: -1},
	} {
		require.Equal(t, name, thread.Name())
		parsed, ok := ParseThreadName(name)
		require.True(t, ok, name)
		require.Equal(t, thread, parsed)
	}
	for _, name := range []string{"", "transport-shm", "r1", "r client 1", "r1 client",
		"r1 client 1x", "r1 server 1", "r1 client 99999999999999999999"} {
		_, ok := ParseThreadName(name)
		require.False(t, ok, name)
	}
}
