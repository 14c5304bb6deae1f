package transporttest

import "transportbench/core/transport"

var echoClauses = []clause{
	{name: "echo/empty", run: echoEmpty,
		says: "A payload may be nil or empty."},
	{name: "echo/one-byte", run: echoOneByte,
		says: "A payload of one byte arrives unchanged."},
	{name: "echo/below-inline-size", run: echoAt(inlineSize(-1)),
		says: "A payload of InlineSize-1 bytes arrives unchanged."},
	{name: "echo/inline-size", run: echoAt(inlineSize(0)),
		says: "A payload of InlineSize bytes arrives unchanged."},
	{name: "echo/above-inline-size", run: echoAt(inlineSize(+1)),
		says: "A payload of InlineSize+1 bytes arrives unchanged."},
	{name: "echo/largest", run: echoAt(largest),
		says: "The largest payload arrives unchanged."},
	{name: "echo/sizes", run: echoSizes,
		says: "Payloads of all sizes arrive unchanged."},
	{name: "echo/batch", run: echoBatch,
		says: "Ops of one Post may differ in size, and may be a list of pages of one size."},
}

// callBothWays lets each side call the other and compares the responses.
func callBothWays(c *cluster, a, b *node, payload []byte) {
	a.call(0, payload)
	c.drain()
	b.call(0, payload)
	c.drain()
}

func echoEmpty(t *trial) {
	c, a, b := t.pair(layout{})
	callBothWays(c, a, b, nil)
	callBothWays(c, a, b, []byte{})
	c.settle()
}

func echoOneByte(t *trial) {
	c, a, b := t.pair(layout{})
	for _, value := range []byte{0, 1, 0x80, 0xff} {
		callBothWays(c, a, b, []byte{value})
	}
}

func echoAt(size func(*cluster) int) func(*trial) {
	return func(t *trial) {
		c, a, b := t.pair(layout{})
		for seed := range uint64(3) {
			callBothWays(c, a, b, pattern(seed, size(c)))
		}
	}
}

func inlineSize(plus int) func(*cluster) int {
	return func(c *cluster) int {
		return min(max(c.limits.InlineSize+plus, 0), c.layout.maxPayload)
	}
}

func largest(c *cluster) int { return c.layout.maxPayload }

// sizes returns all small sizes, up to more than the inline size, and the sizes around larger
// powers of two.
func sizes(c *cluster) []int {
	var list []int
	top := c.layout.maxPayload
	dense := min(max(c.limits.InlineSize+70, 300), 1000, top)
	for size := range dense + 1 {
		list = append(list, size)
	}
	for power := 1; power <= top; power *= 2 {
		for size := power - 1; size <= min(power+1, top); size++ {
			if size > dense {
				list = append(list, size)
			}
		}
	}
	return append(list, top-1, top)
}

func echoSizes(t *trial) {
	c, a, b := t.pair(layout{})
	for i, size := range sizes(c) {
		a.call(0, pattern(uint64(i), size))
		b.call(0, pattern(uint64(i)<<32, size))
	}
	c.drain()
}

func echoBatch(t *trial) {
	c, a, b := t.pair(layout{})
	random := dice()
	for range 20 {
		var ops []transport.Op
		for range 1 + random.IntN(2*c.depth()) {
			size := random.IntN(min(c.layout.maxPayload, 2*c.limits.InlineSize+200) + 1)
			ops = append(ops, a.newCall(0, pattern(random.Uint64(), size)))
		}
		a.post(ops...)
	}
	const page = 64 << 10
	top := min(c.layout.maxPayload, page)
	for _, size := range []int{top, top &^ 7, top / 2 &^ 7, top/2 | 1} {
		var pages []transport.Op
		for range 2*c.depth() - 1 {
			pages = append(pages, a.newCall(0, pattern(random.Uint64(), size)))
		}
		a.post(pages...)
	}
	c.drain()
	if a.answered != b.served {
		t.Fatalf("%d requests were polled for %d calls", b.served, a.answered)
	}
	c.settle()
}
