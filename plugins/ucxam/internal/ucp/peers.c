//go:build ucx && cgo

// Peers and their endpoints.

#include "shim_internal.h"

#include <stdio.h>

// uam_index returns where a search in the hash table begins, for a nonce and any origin with it.
uint32_t uam_index(uam_worker *w, uint64_t nonce)
{
	return (uint32_t)((AM_BASE(nonce) * 0x9e3779b97f4a7c15u) >> 32) & w->index_mask;
}

// uam_find_indexed looks for a peer in the hash table.
uam_peer *uam_find_indexed(uam_worker *w, uint64_t origin)
{
	for (uint32_t at = uam_index(w, origin); w->index[at] != 0; at = (at + 1) & w->index_mask) {
		uam_peer *p = &w->peers[w->index[at] - 1];
		if (uam_kind(p, origin) <= AM_LOST)
			return w->last = p;
	}
	return NULL;
}

// uam_lose marks a peer lost and puts the loss into the ring, after all messages of the
// peer. The endpoint is closed later, outside of UCX's callbacks.
void uam_lose(uam_worker *w, uam_peer *p, int64_t why)
{
	if (p->state != PEER_UP)
		return;
	p->state = PEER_LOST;
	w->any_lost = 1;
	// The ring has one spare entry per peer for this.
	am_arrival *a = &w->shared.ring[w->shared.arrived++ & w->shared.mask];
	a->token = (uint64_t)why;
	a->data = NULL;
	a->size = 0;
	a->peer = p->id;
	a->kind = AM_LOST;
	a->route = HELD_NOTHING;
}

void uam_on_error(void *arg, ucp_ep_h ep, ucs_status_t status)
{
	uam_peer *p = arg;
	(void)ep;
	if (!p->worker->closed)
		uam_lose(p->worker, p, status);
}

// uam_endpoint_info returns UCX's description of an endpoint; the caller frees it.
char *uam_endpoint_info(ucp_ep_h ep)
{
	char *text = NULL;
	size_t length = 0;
	FILE *f = open_memstream(&text, &length);
	if (f == NULL)
		return NULL;
	ucp_ep_print_info(ep, f);
	fclose(f);
	return text;
}

// uam_create_endpoint creates an endpoint for a worker with this address.
ucs_status_t uam_create_endpoint(ucp_worker_h w, const void *address, int peer_errors,
	ucp_err_handler_cb_t on_error, void *arg, ucp_ep_h *ep)
{
	ucp_ep_params_t params = {
		.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
			UCP_EP_PARAM_FIELD_ERR_HANDLER,
		.address = address,
		.err_mode = peer_errors ? UCP_ERR_HANDLING_MODE_PEER : UCP_ERR_HANDLING_MODE_NONE,
		.err_handler = { .cb = on_error, .arg = arg },
	};
	return ucp_ep_create(w, &params, ep);
}

static void endpoint_closed(void *request, ucs_status_t status, void *arg)
{
	(void)status;
	uam_peer *p = arg;
	p->worker->closing--;
	p->close_request = NULL;
	if (!p->worker->destroyed)
		ucp_request_free(request);
}

// uam_close_endpoint closes a peer's endpoint, if it has one. With force it does not flush.
void uam_close_endpoint(uam_worker *w, uam_peer *p, int force)
{
	if (p->ep == NULL)
		return;
	ucp_request_param_t param = {
		.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS,
		.flags = force && w->config.peer_errors ? UCP_EP_CLOSE_FLAG_FORCE : 0,
		.cb.send = endpoint_closed,
		.user_data = p,
	};
	ucp_ep_h ep = p->ep;
	p->ep = NULL;
	w->closing++;
	void *request = ucp_ep_close_nbx(ep, &param);
	if (UCS_PTR_IS_PTR(request))
		p->close_request = request;
	else
		w->closing--;
}

// uam_close_lost closes the endpoints of lost peers without flushing them.
void uam_close_lost(uam_worker *w)
{
	w->any_lost = 0;
	for (uint32_t i = 0; i < w->config.peers; i++)
		if (w->peers[i].state == PEER_LOST)
			uam_close_endpoint(w, &w->peers[i], 1);
}
