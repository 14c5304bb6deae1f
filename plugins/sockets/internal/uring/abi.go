package uring

import "golang.org/x/sys/unix"

// The kernel's constants, from include/uapi/linux/io_uring.h of Linux 6.12. All are part of its
// stable interface.
const (
	opNop         = 0
	opAsyncCancel = 14
	opSend        = 26
	opRecv        = 27

	sqeFixedFile    = 1 << 0 // IOSQE_FIXED_FILE
	sqeBufferSelect = 1 << 5 // IOSQE_BUFFER_SELECT

	recvMultishot = 1 << 1 // IORING_RECV_MULTISHOT, in ioprio

	cancelAll     = 1 << 0 // IORING_ASYNC_CANCEL_ALL
	cancelFD      = 1 << 1 // IORING_ASYNC_CANCEL_FD
	cancelAny     = 1 << 2 // IORING_ASYNC_CANCEL_ANY
	cancelFDFixed = 1 << 3 // IORING_ASYNC_CANCEL_FD_FIXED

	cqeMore = 1 << 1 // IORING_CQE_F_MORE

	offSQRing = 0          // IORING_OFF_SQ_RING
	offSQEs   = 0x10000000 // IORING_OFF_SQES

	setupCQSize      = 1 << 3  // IORING_SETUP_CQSIZE
	setupClamp       = 1 << 4  // IORING_SETUP_CLAMP
	setupSubmitAll   = 1 << 7  // IORING_SETUP_SUBMIT_ALL
	setupCoopTaskrun = 1 << 8  // IORING_SETUP_COOP_TASKRUN
	setupTaskrunFlag = 1 << 9  // IORING_SETUP_TASKRUN_FLAG
	setupNoSQArray   = 1 << 16 // IORING_SETUP_NO_SQARRAY

	featSingleMmap = 1 << 0 // IORING_FEAT_SINGLE_MMAP
	featNoDrop     = 1 << 1 // IORING_FEAT_NODROP
	featExtArg     = 1 << 8 // IORING_FEAT_EXT_ARG

	sqCQOverflow = 1 << 1 // IORING_SQ_CQ_OVERFLOW
	sqTaskrun    = 1 << 2 // IORING_SQ_TASKRUN

	enterGetEvents = 1 << 0 // IORING_ENTER_GETEVENTS
	enterExtArg    = 1 << 3 // IORING_ENTER_EXT_ARG

	registerFiles2       = 13 // IORING_REGISTER_FILES2
	registerFilesUpdate2 = 14 // IORING_REGISTER_FILES_UPDATE2
	registerProbe        = 8  // IORING_REGISTER_PROBE
	registerPbufRing     = 22 // IORING_REGISTER_PBUF_RING
	unregisterPbufRing   = 23 // IORING_UNREGISTER_PBUF_RING
	registerSyncCancel   = 24 // IORING_REGISTER_SYNC_CANCEL

	filesSparse = 1 << 0 // IORING_RSRC_REGISTER_SPARSE
	pbufInc     = 2      // IOU_PBUF_RING_INC

	probeSupported = 1 << 0 // IO_URING_OP_SUPPORTED
)

// sqe is struct io_uring_sqe, with the names of the union members in use.
type sqe struct {
	opcode   uint8
	flags    uint8
	ioprio   uint16
	fd       int32
	off      uint64
	addr     uint64
	len      uint32
	opFlags  uint32
	userData uint64
	bufGroup uint16
	_        uint16
	_        uint32
	_        [2]uint64
}

// cqe is struct io_uring_cqe.
type cqe struct {
	userData uint64
	res      int32
	flags    uint32
}

// params is struct io_uring_params.
type params struct {
	sqEntries, cqEntries, flags uint32
	_, _                        uint32 // sq_thread_cpu, sq_thread_idle
	features                    uint32
	_                           [4]uint32 // wq_fd, resv
	sq                          sqOffsets
	cq                          cqOffsets
}

type sqOffsets struct {
	head, tail, ringMask, ringEntries, flags, dropped, array, _ uint32
	_                                                           uint64
}

type cqOffsets struct {
	head, tail, ringMask, ringEntries, overflow, cqes, flags, _ uint32
	_                                                           uint64
}

// getEventsArg is struct io_uring_getevents_arg.
type getEventsArg struct {
	_  uint64 // sigmask
	_  uint32 // sigmask_sz
	_  uint32 // min_wait_usec
	ts uint64
}

// buffer is struct io_uring_buf. The last field of entry 0 is the tail of the ring.
type buffer struct {
	addr uint64
	len  uint32
	bid  uint16
	_    uint16
}

// bufferRegistration is struct io_uring_buf_reg.
type bufferRegistration struct {
	addr    uint64
	entries uint32
	group   uint16
	flags   uint16
	_       [3]uint64
}

// resourceRegistration is struct io_uring_rsrc_register.
type resourceRegistration struct {
	count, flags uint32
	_            uint64
	data, tags   uint64
}

// resourceUpdate is struct io_uring_rsrc_update2.
type resourceUpdate struct {
	offset, _  uint32
	data, tags uint64
	count, _   uint32
}

// probe is struct io_uring_probe with the operations below probeOps.
type probe struct {
	lastOp, opsLen uint8
	_              uint16
	_              [3]uint32
	ops            [probeOps]probeOp
}

const probeOps = 64

// probeOp is struct io_uring_probe_op.
type probeOp struct {
	op, _ uint8
	flags uint16
	_     uint32
}

// syncCancel is struct io_uring_sync_cancel_reg.
type syncCancel struct {
	_       uint64 // addr
	fd      int32
	flags   uint32
	timeout unix.Timespec
	_       [4]uint64
}
