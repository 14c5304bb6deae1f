//go:build ucx && cgo

package ucptest

/*
#cgo pkg-config: ucx
#cgo CFLAGS: -O2 -Wall -Wextra -I${SRCDIR}/..
#include "shim_internal.h"

static void done(void *request, ucs_status_t status, void *bytes)
{
	(void)status;
	free(bytes);
	ucp_request_free(request);
}

static void send_pack(uam_worker *w, uint32_t peer, void *bytes, size_t size)
{
	ucp_request_param_t param = {
		.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
		.cb.send = done,
		.user_data = bytes,
	};
	if (!UCS_PTR_IS_PTR(ucp_am_send_nbx(w->peers[peer].ep, AM_PACK, bytes, size, NULL, 0, &param)))
		free(bytes);
}
*/
import "C"

import (
	"reflect"

	"transportbench/plugins/ucxam/internal/ucp"
)

// SendPack sends bytes to a peer as a pack. If UCX has no room for them yet, it sends them while
// the worker makes progress.
func SendPack(w *ucp.Worker, peer int, bytes []byte) {
	native := (*C.uam_worker)(reflect.ValueOf(w).Elem().FieldByName("c").UnsafePointer())
	C.send_pack(native, C.uint32_t(peer), C.CBytes(bytes), C.size_t(len(bytes)))
}
