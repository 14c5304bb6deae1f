//go:build ofi && cgo

package fi

// #include "shim.h"
import "C"

import (
	"unsafe"

	"transportbench/core/fabric/amlib"
)

// The shim's structs have the layout of amlib's: these indices are constants other than 0 where
// they have not, which does not compile.
var (
	goHeader  amlib.Header
	cHeader   C.fb_header
	goSend    amlib.Send
	cSend     C.fb_send
	goArrival amlib.Arrival
	cArrival  C.fb_arrival
	goPool    amlib.Pool
	cPool     C.fb_pool
	goShared  amlib.Shared
	cShared   C.fb_shared

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

	_ = [1]int{}[amlib.Call-C.FB_CALL]
	_ = [1]int{}[amlib.Reply-C.FB_REPLY]
	_ = [1]int{}[amlib.Lost-C.FB_LOST]
	_ = [1]int{}[amlib.Closed-C.FB_CLOSED]
	_ = [1]int{}[amlib.Corrupt-C.FB_CORRUPT]
	_ = [1]int{}[amlib.TripsPerBatch-C.FB_BATCH]
)
