package transport

import (
	"math/bits"
	"strconv"
	"strings"
)

// The names of counters of transports that write several messages at once.
const (
	// StatBatches counts batches written to peers, and StatBatchedMessages the messages in them.
	StatBatches         = "batches"
	StatBatchedMessages = "messages"
	// StatCreditOnly counts writes that returned credit and nothing else.
	StatCreditOnly = "credit_only"

	batchSizePrefix = "batches_to_"
)

// BatchSizes counts batches by their number of messages: those of one, of two, of up to four, up to
// eight, and so on. The zero value is empty.
type BatchSizes [17]uint64

// Add counts a batch of n messages, at least 1.
func (b *BatchSizes) Add(n uint32) { b[min(bits.Len32(n-1), len(b)-1)]++ }

// Append appends the counters to dst. Their names are the same whatever was counted.
func (b *BatchSizes) Append(dst []Stat) []Stat {
	for i, n := range b {
		limit := strconv.Itoa(1 << i)
		dst = append(dst, Stat{Name: batchSizePrefix + limit, Help: "batches of up to " + limit +
			" messages and more than half of that", Value: n})
	}
	return dst
}

// BatchSizeOf returns the largest number of messages of the batches that a counter of [BatchSizes]
// with that name counts; is reports whether it is one.
func BatchSizeOf(name string) (limit int, is bool) {
	text, has := strings.CutPrefix(name, batchSizePrefix)
	if !has {
		return 0, false
	}
	limit, err := strconv.Atoi(text)
	return limit, err == nil
}
