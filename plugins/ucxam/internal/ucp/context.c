//go:build ucx && cgo

#include "shim_internal.h"

#include <stdio.h>
#include <ucs/config/parser.h>
#include <ucs/config/global_opts.h>

// uam_open opens a context. settings holds pairs of a name (without UCX_) and a value, and
// ends with NULL. *bad is the index of the pair that UCX refuses, or -1.
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

// uam_context_info returns UCX's description of the context's resources.
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

// uam_known_variables returns all variables of the loaded UCX, one UCX_NAME=value per line.
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

static void ignore_error(void *arg, ucp_ep_h ep, ucs_status_t status)
{
	(void)arg, (void)ep, (void)status;
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

// uam_trial_connect connects two temporary workers and returns UCX's description of the
// connection, so that the lane is known before there are peers.
ucs_status_t uam_trial_connect(uam_context *c, int peer_errors, char **info)
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
		status = uam_create_endpoint(from, address, peer_errors, ignore_error, NULL, &ep);
		if (status == UCS_OK) {
			*info = uam_endpoint_info(ep);
			close_now(from, ep, peer_errors);
		}
		ucp_worker_release_address(to, address);
	}
	ucp_worker_destroy(from);
	ucp_worker_destroy(to);
	return status;
}

