package erpc

// rpc is a request of n packets and its response of m, as one side knows them. One numbering
// covers both: request packet i has number i, response packet j has number n-1+j. The server
// answers each packet of the client under its number (eRPC, NSDI 2019, section 5.1):
//
//	number     client sends     server answers
//	0 .. n-2   request packet   credit return
//	n-1        request packet   response packet 0
//	n .. n+m-2 RFR              response packet 1 .. m-1
type rpc struct {
	requestPackets  int
	responsePackets int // 0 until it is known
	requestSize     int
	responseSize    int
}

// packetsOf returns how many packets of maxData bytes a message of size bytes takes. An empty
// message takes one.
func packetsOf(size, maxData int) int {
	if size <= maxData {
		return 1
	}
	return (size + maxData - 1) / maxData
}

// fragment returns the range of a message that its packet i carries.
func fragment(i, size, maxData int) (from, to int) {
	from = i * maxData
	return from, min(from+maxData, size)
}

// packets returns how many packets the client sends in this RPC, as far as it knows.
func (x *rpc) packets() int {
	if x.responsePackets == 0 {
		return x.requestPackets
	}
	return x.requestPackets + x.responsePackets - 1
}

// verdict is the result of checking a packet against the number that is expected next.
type verdict uint8

const (
	inOrder    verdict = iota
	duplicate          // its number was seen before
	outOfOrder         // a packet before it is missing, or it answers a packet that was not sent
	malformed          // it contradicts the RPC
)

func order(number, next int) verdict {
	switch {
	case number < next:
		return duplicate
	case number > next:
		return outOfOrder
	}
	return inOrder
}

// begin starts an RPC at the server with its first packet, of dataSize bytes. It returns false
// if the packet cannot be one.
func (x *rpc) begin(h *header, dataSize, maxData, maxPayload int) bool {
	size := int(h.size)
	if h.number != 0 || size > maxPayload || dataSize != min(size, maxData) {
		return false
	}
	*x = rpc{requestSize: size, requestPackets: packetsOf(size, maxData)}
	return true
}

// checkRequest checks a request packet at a server that has received all numbers before next.
func (x *rpc) checkRequest(h *header, dataSize, next, maxData int) verdict {
	n := int(h.number)
	if n >= x.requestPackets || int(h.size) != x.requestSize {
		return malformed
	}
	if from, to := fragment(n, x.requestSize, maxData); dataSize != to-from {
		return malformed
	}
	return order(n, next)
}

// checkRFR checks an RFR at a server that has replied.
func (x *rpc) checkRFR(h *header, dataSize, next int) verdict {
	n := int(h.number)
	if n < x.requestPackets || n >= x.packets() || dataSize != 0 {
		return malformed
	}
	return order(n, next)
}

// checkAnswer checks the number of an answer at a client that has received all answers before next
// and sent all packets before sent.
func checkAnswer(number, next, sent int) verdict {
	switch {
	case number < next:
		return duplicate
	case number > next || number >= sent:
		return outOfOrder
	}
	return inOrder
}

// checkCredit checks a credit return.
func (x *rpc) checkCredit(h *header, dataSize, next, sent int) verdict {
	n := int(h.number)
	if v := checkAnswer(n, next, sent); v != inOrder {
		return v
	}
	if n >= x.requestPackets-1 || dataSize != 0 {
		return malformed
	}
	return inOrder
}

// checkResponse checks a response packet. The first one sets the size of the response in x.
func (x *rpc) checkResponse(h *header, dataSize, next, sent, maxData, maxPayload int) verdict {
	n := int(h.number)
	if v := checkAnswer(n, next, sent); v != inOrder {
		return v
	}
	i, size := n-(x.requestPackets-1), int(h.size)
	if i < 0 || size > maxPayload || i > 0 && size != x.responseSize {
		return malformed
	}
	if from, to := fragment(i, size, maxData); dataSize != to-from {
		return malformed
	}
	if i == 0 {
		x.responseSize, x.responsePackets = size, packetsOf(size, maxData)
	}
	return inOrder
}
