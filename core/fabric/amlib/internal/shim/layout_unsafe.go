//go:build cgo

package shim

// #include "amlib.h"
import "C"

import (
	"unsafe"

	"transportbench/core/fabric/amlib"
)

// The structs of amlib.h have the layout of amlib's. If one has not, its index is a constant other
// than 0, which does not compile.
var (
	goHeader  amlib.Header
	cHeader   C.am_header
	goSend    amlib.Send
	cSend     C.am_send
	goArrival amlib.Arrival
	cArrival  C.am_arrival
	goPool    amlib.Pool
	cPool     C.am_pool
	goShared  amlib.Shared
	cShared   C.am_shared

	_ = [1]int{}[unsafe.Sizeof(goHeader)-unsafe.Sizeof(cHeader)]
	_ = [1]int{}[unsafe.Offsetof(goHeader.Token)-unsafe.Offsetof(cHeader.token)]
	_ = [1]int{}[unsafe.Offsetof(goHeader.Origin)-unsafe.Offsetof(cHeader.origin)]
	_ = [1]int{}[unsafe.Sizeof(goSend)-unsafe.Sizeof(cSend)]
	_ = [1]int{}[unsafe.Offsetof(goSend.Slot)-unsafe.Offsetof(cSend.slot)]
	_ = [1]int{}[unsafe.Offsetof(goSend.Peer)-unsafe.Offsetof(cSend.peer)]
	_ = [1]int{}[unsafe.Offsetof(goSend.Size)-unsafe.Offsetof(cSend.size)]
	_ = [1]int{}[unsafe.Sizeof(goArrival)-unsafe.Sizeof(cArrival)]
	_ = [1]int{}[unsafe.Offsetof(goArrival.Token)-unsafe.Offsetof(cArrival.token)]
	_ = [1]int{}[unsafe.Offsetof(goArrival.Data)-unsafe.Offsetof(cArrival.data)]
	_ = [1]int{}[unsafe.Offsetof(goArrival.Size)-unsafe.Offsetof(cArrival.size)]
	_ = [1]int{}[unsafe.Offsetof(goArrival.Peer)-unsafe.Offsetof(cArrival.peer)]
	_ = [1]int{}[unsafe.Offsetof(goArrival.Kind)-unsafe.Offsetof(cArrival.kind)]
	_ = [1]int{}[unsafe.Sizeof(goPool)-unsafe.Sizeof(cPool)]
	_ = [1]int{}[unsafe.Offsetof(goPool.Base)-unsafe.Offsetof(cPool.base)]
	_ = [1]int{}[unsafe.Offsetof(goPool.Stride)-unsafe.Offsetof(cPool.stride)]
	_ = [1]int{}[unsafe.Offsetof(goPool.Free)-unsafe.Offsetof(cPool.free)]
	_ = [1]int{}[unsafe.Offsetof(goPool.Left)-unsafe.Offsetof(cPool.left)]
	_ = [1]int{}[unsafe.Offsetof(goPool.Count)-unsafe.Offsetof(cPool.count)]
	_ = [1]int{}[unsafe.Offsetof(goShared.Queued)-unsafe.Offsetof(cShared.queued)]
	_ = [1]int{}[unsafe.Offsetof(goShared.Pending)-unsafe.Offsetof(cShared.pending)]
	_ = [1]int{}[unsafe.Offsetof(goShared.Arrived)-unsafe.Offsetof(cShared.arrived)]
	_ = [1]int{}[unsafe.Offsetof(goShared.Taken)-unsafe.Offsetof(cShared.taken)]
	_ = [1]int{}[unsafe.Offsetof(goShared.Small)-unsafe.Offsetof(cShared.small)]
	_ = [1]int{}[unsafe.Offsetof(goShared.Large)-unsafe.Offsetof(cShared.large)]
	_ = [1]int{}[unsafe.Offsetof(goShared.Sends)-unsafe.Offsetof(cShared.sends)]
	_ = [1]int{}[unsafe.Offsetof(goShared.Ring)-unsafe.Offsetof(cShared.ring)]
	_ = [1]int{}[unsafe.Offsetof(goShared.Mask)-unsafe.Offsetof(cShared.mask)]
	_ = [1]int{}[unsafe.Offsetof(goShared.Nonce)-unsafe.Offsetof(cShared.nonce)]

	_ = [1]int{}[amlib.Call-C.AM_CALL]
	_ = [1]int{}[amlib.Reply-C.AM_REPLY]
	_ = [1]int{}[amlib.Lost-C.AM_LOST]
	_ = [1]int{}[amlib.Closed-C.AM_CLOSED]
	_ = [1]int{}[amlib.Corrupt-C.AM_CORRUPT]
	_ = [1]int{}[amlib.TripsPerBatch-C.AM_BATCH]
)
