//go:build ucx && cgo

#include "shim_internal.h"

#include <stdio.h>
#include <ucs/config/parser.h>
#include <ucs/config/global_opts.h>

// uam_open opens a context. settings are pairs of a name without UCX_ and a
// value, ended by NULL; *bad is the index of the pair that UCX refused, or -1.
ucs_status_t uam_open(const char *const *settings, int wakeup, int shared, uam_context **out, int *bad)
{
	ucp_config_t *config;
	*bad = -1;
	ucs_status_t status = ucp_config_read(NULL, NULL, &config);
	if (status != UCS_OK)
		return status;
	for (int i = 0; settings[i] != NULL; i += 2) {
		status = ucp_config_modify(config, settings[i], settings[i + 1]);
		if (status != UCS_OK) {
			*bad = i / 2;
			ucp_config_release(config);
			return status;
		}
	}
	ucp_params_t params = {
		.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED,
		.features = UCP_FEATURE_AM | (wakeup ? UCP_FEATURE_WAKEUP : 0),
		.mt_workers_shared = shared,
	};
	uam_context *c = calloc(1, sizeof *c);
	if (c == NULL) {
		ucp_config_release(config);
		return UCS_ERR_NO_MEMORY;
	}
	status = ucp_init(&params, config, &c->ucp);
	ucp_config_release(config);
	if (status != UCS_OK) {
		free(c);
		return status;
	}
	*out = c;
	return UCS_OK;
}

void uam_close_context(uam_context *c)
{
	ucp_cleanup(c->ucp);
	free(c);
}

// uam_context_info returns what UCX says of the context's resources.
char *uam_context_info(uam_context *c)
{
	char *text = NULL;
	size_t length = 0;
	FILE *f = open_memstream(&text, &length);
	if (f == NULL)
		return NULL;
	ucp_context_print_info(c->ucp, f);
	fclose(f);
	return text;
}

// uam_known_variables returns all variables that the loaded UCX knows, one
// UCX_NAME=value to a line.
char *uam_known_variables(void)
{
	char *text = NULL;
	size_t length = 0;
	FILE *f = open_memstream(&text, &length);
	if (f == NULL)
		return NULL;
	ucs_config_parser_print_all_opts(f, UCS_DEFAULT_ENV_PREFIX,
		UCS_CONFIG_PRINT_CONFIG | UCS_CONFIG_PRINT_HIDDEN, &ucs_config_global_list);
	fclose(f);
	return text;
}

enum { QUIET_ROUNDS = 100 };

static char *endpoint_info(ucp_ep_h ep)
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

static void ignore_error(void *arg, ucp_ep_h ep, ucs_status_t status)
{
	(void)arg, (void)ep, (void)status;
}

static ucs_status_t connect_to(ucp_worker_h w, const void *address, int peer_errors,
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

static void close_now(ucp_worker_h w, ucp_ep_h ep, int peer_errors)
{
	ucp_request_param_t param = {
		.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
		.flags = peer_errors ? UCP_EP_CLOSE_FLAG_FORCE : 0,
	};
	void *request = ucp_ep_close_nbx(ep, &param);
	if (!UCS_PTR_IS_PTR(request))
		return;
	for (int i = 0; i < 100000 && ucp_request_check_status(request) == UCS_INPROGRESS; i++)
		ucp_worker_progress(w);
	ucp_request_free(request);
}

// uam_rehearse connects two workers of its own and returns UCX's description of
// the connection, so that its lane is known before there are peers.
ucs_status_t uam_rehearse(uam_context *c, int peer_errors, char **info)
{
	ucp_worker_params_t params = {
		.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
		.thread_mode = UCS_THREAD_MODE_SERIALIZED,
	};
	ucp_worker_h from, to;
	ucs_status_t status = ucp_worker_create(c->ucp, &params, &from);
	if (status != UCS_OK)
		return status;
	status = ucp_worker_create(c->ucp, &params, &to);
	if (status != UCS_OK) {
		ucp_worker_destroy(from);
		return status;
	}
	ucp_address_t *address;
	size_t length;
	status = ucp_worker_get_address(to, &address, &length);
	if (status == UCS_OK) {
		ucp_ep_h ep;
		status = connect_to(from, address, peer_errors, ignore_error, NULL, &ep);
		if (status == UCS_OK) {
			*info = endpoint_info(ep);
			close_now(from, ep, peer_errors);
		}
		ucp_worker_release_address(to, address);
	}
	ucp_worker_destroy(from);
	ucp_worker_destroy(to);
	return status;
}

// uam_connect makes the peer known. *info is UCX's description of the
// connection, freed by the caller.
ucs_status_t uam_connect(uam_worker *w, uint32_t id, uint64_t nonce, const void *address, char **info)
{
	uam_peer *p = &w->peers[id];
	p->worker = w;
	p->nonce = nonce;
	p->id = id;
	ucs_status_t status = connect_to(w->ucp, address, w->config.peer_errors, uam_on_error, p, &p->ep);
	if (status != UCS_OK)
		return status;
	*info = endpoint_info(p->ep);
	p->state = PEER_UP;
	uint32_t at = (uint32_t)((nonce * 0x9e3779b97f4a7c15u) >> 32) & w->index_mask;
	while (w->index[at] != 0)
		at = (at + 1) & w->index_mask;
	w->index[at] = id + 1;
	uam_admit_early(w, p);
	// A first step of the connection's own handshake, as far as it goes without
	// the peer.
	for (int quiet = 0; quiet < QUIET_ROUNDS; quiet++)
		if (ucp_worker_progress(w->ucp) != 0)
			quiet = 0;
	return UCS_OK;
}
