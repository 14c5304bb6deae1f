package kv

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

func TestEcho(t *testing.T) {
	request := EncodeEcho(make([]byte, 100), 7, 40, 1)
	require.Equal(t, EncodePut(make([]byte, 100), 7, 40, 1)[1:], request[1:],
		"only the operation differs")
	require.True(t, IsEcho(request))
	for _, full := range []bool{false, true} {
		require.Equal(t, FailureNone, CheckEcho(request, request, full))
		require.Equal(t, FailureStale, CheckEcho(EncodeEcho(make([]byte, 100), 7, 40, 2),
			request, full))
		require.Equal(t, FailureKey, CheckEcho(EncodeEcho(make([]byte, 100), 8, 40, 1),
			request, full))
		require.Equal(t, FailureSize, CheckEcho(request[:40], request, full))
	}
	for _, other := range [][]byte{nil, request[:HeaderSize-1],
		EncodePut(make([]byte, 100), 7, 40, 1)} {
		require.False(t, IsEcho(other))
		var header [HeaderSize]byte
		response, outcome := RejectEcho(&header)
		require.Equal(t, OutcomeRejected, outcome)
		require.Equal(t, FailureStatus, CheckEcho(response, request, true))
	}
}

// TestEchoFindsAnyDamage changes any byte of a response.
func TestEchoFindsAnyDamage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(0, 300).Draw(t, "size")
		request := EncodeEcho(make([]byte, HeaderSize+size), 7, size, 1)
		response := append([]byte(nil), request...)
		response[rapid.IntRange(0, len(response)-1).Draw(t, "at")] ^= byte(
			1 << rapid.IntRange(0, 7).Draw(t, "bit"))
		require.NotEqual(t, FailureNone, CheckEcho(response, request, true))
	})
}

func TestSink(t *testing.T) {
	var header [HeaderSize]byte
	s := Sink{VerifyEvery: 3}
	for i := range uint64(9) {
		request := EncodePut(make([]byte, 100), 7, 40, i)
		response, outcome := s.Serve(request, &header)
		require.Equal(t, OutcomePut, outcome)
		require.Equal(t, FailureNone, CheckSink(response, request))
		require.Equal(t, FailureStale, CheckSink(response,
			EncodePut(make([]byte, 100), 7, 40, i+100)))
		require.Equal(t, FailureKey, CheckSink(response, EncodePut(make([]byte, 100), 8, 40, i)))
		require.Equal(t, FailureSize, CheckSink(append(response, 0), request))
		require.Equal(t, FailureShort, CheckSink(response[:HeaderSize-1], request))
	}
	require.EqualValues(t, 3*40, s.Work().ChecksummedBytes)
	require.Zero(t, s.Work().StoredBytes)

	damaged := EncodePut(make([]byte, 100), 7, 40, 1)
	damaged[len(damaged)-1] ^= 1
	response, outcome := s.Serve(damaged, &header)
	require.Equal(t, OutcomeRejected, outcome)
	require.Equal(t, FailureStatus, CheckSink(response, damaged))
}

// TestSinkTakesAnything gives a sink any bytes.
func TestSinkTakesAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Sink{VerifyEvery: rapid.IntRange(0, 2).Draw(t, "every")}
		var header [HeaderSize]byte
		for range 3 {
			response, outcome := s.Serve(rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "request"),
				&header)
			require.Len(t, response, HeaderSize)
			require.Contains(t, []Outcome{OutcomePut, OutcomeRejected}, outcome)
		}
	})
}

// TestTouchReadsEachLine gives touch ranges that start anywhere in a line: the sum changes if the
// bytes of any one line do.
func TestTouchReadsEachLine(t *testing.T) {
	memory := make([]byte, 40*cacheLine)
	for _, start := range []int{0, 1, 16, 63} {
		for _, size := range []int{1, 7, 47, 48, 64, 65, 511, 512, 513, 2000} {
			b := memory[start : start+size]
			require.Zero(t, touch(b))
			for line := start / cacheLine; line*cacheLine < start+size; line++ {
				for i := max(start, line*cacheLine); i < min(start+size, (line+1)*cacheLine); i++ {
					memory[i] = 1
				}
				require.NotZero(t, touch(b), "line %d of %d bytes from %d on", line, size, start)
				clear(memory)
			}
		}
	}
}

// TestSameEchoReadsEachLine gives SameEcho responses that start anywhere in a line and differ from
// the request in all bytes of one line.
func TestSameEchoReadsEachLine(t *testing.T) {
	memory := make([]byte, 3*cacheLine)
	for start := range cacheLine {
		for size := HeaderSize; size <= cacheLine; size++ {
			response := memory[start : start+size]
			request := EncodeEcho(make([]byte, size), 7, size-HeaderSize, 1)
			copy(response, request)
			require.True(t, SameEcho(response, request))
			for line := start / cacheLine; line*cacheLine < start+size; line++ {
				first, end := max(start, line*cacheLine), min(start+size, (line+1)*cacheLine)
				for i := first; i < end; i++ {
					memory[i]++
				}
				require.False(t, SameEcho(response, request))
				copy(response, request)
			}
		}
	}
	long := EncodeEcho(make([]byte, cacheLine+1), 7, cacheLine+1-HeaderSize, 1)
	require.False(t, SameEcho(long, long))
}

// TestSampledVerificationReadsTheRest checks that a value which is not verified in full is read:
// doing so faults if a page in its middle cannot be read.
func TestSampledVerificationReadsTheRest(t *testing.T) {
	const page, size = 4096, 3 * 4096
	memory, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Munmap(memory)) }()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	var header [HeaderSize]byte
	request := make([]byte, size)
	for name, read := range map[string]func(){
		"a read": func() { Check(memory, 7, 0, size-HeaderSize, false) },
		"an echo": func() {
			CheckEcho(memory, request, false)
		},
		"a sink": func() { (&Sink{VerifyEvery: 2, verifyIn: 2}).Serve(memory, &header) },
	} {
		copy(memory, EncodePut(request, 7, size-HeaderSize, 1))
		if name == "a read" {
			putHeader(memory, 7<<8|statusOK, 1, 0)
		}
		require.NotPanics(t, read, name)
		require.NoError(t, unix.Mprotect(memory[page:2*page], unix.PROT_NONE))
		require.Panics(t, read, name)
		require.NoError(t, unix.Mprotect(memory[page:2*page], unix.PROT_READ|unix.PROT_WRITE))
	}
}
