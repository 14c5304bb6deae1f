//go:build ofi && cgo

// Interfaces to providers.

#include "shim_internal.h"

uint32_t fb_version(void) { return fi_version(); }

const char *fb_error(int error) { return fi_strerror(error < 0 ? -error : error); }

// fb_list_open asks libfabric for its interfaces with reliable datagrams, those of one provider
// unless it is NULL.
int fb_list_open(const char *provider, fb_list **out)
{
	fb_list *l = calloc(1, sizeof *l);
	struct fi_info *hints = fi_allocinfo();
	int error = -FI_ENOMEM;
	if (l != NULL && hints != NULL) {
		hints->caps = FI_MSG | FI_TAGGED;
		hints->mode = FI_CONTEXT | FI_CONTEXT2;
		hints->ep_attr->type = FI_EP_RDM;
		hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
		hints->domain_attr->threading = FI_THREAD_DOMAIN;
		hints->domain_attr->control_progress = FI_PROGRESS_MANUAL;
		hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
		hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
		if (provider != NULL)
			hints->fabric_attr->prov_name = strdup(provider);
		error = fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &l->first);
	}
	if (hints != NULL)
		fi_freeinfo(hints);
	if (error != 0) {
		free(l);
		return error;
	}
	*out = l;
	return 0;
}

static struct fi_info *at(fb_list *l, uint32_t i)
{
	struct fi_info *info = l->first;
	while (info != NULL && i-- > 0)
		info = info->next;
	return info;
}

int fb_list_at(fb_list *l, uint32_t i, fb_info *out)
{
	struct fi_info *info = at(l, i);
	if (info == NULL)
		return 0;
	*out = (fb_info){
		.provider = info->fabric_attr->prov_name,
		.fabric = info->fabric_attr->name,
		.domain = info->domain_attr->name,
		.version = info->fabric_attr->prov_version,
		.format = info->addr_format,
		.address = info->src_addr,
		.address_size = info->src_addr == NULL ? 0 : info->src_addrlen,
		.inject = info->tx_attr->inject_size,
		.transmits = info->tx_attr->size,
		.receives = info->rx_attr->size,
		.max_message = info->ep_attr->max_msg_size,
		.mr_mode = info->domain_attr->mr_mode,
		.mode = info->mode,
	};
	fi_tostr_r(out->endpoint, sizeof out->endpoint, &info->ep_attr->type, FI_TYPE_EP_TYPE);
	fi_tostr_r(out->protocol, sizeof out->protocol, &info->ep_attr->protocol, FI_TYPE_PROTOCOL);
	return 1;
}

void fb_list_close(fb_list *l)
{
	fi_freeinfo(l->first);
	free(l);
}

// fb_open opens an interface of a list.
int fb_open(fb_list *l, uint32_t i, fb_context **out)
{
	fb_context *c = calloc(1, sizeof *c);
	if (c == NULL)
		return -FI_ENOMEM;
	c->info = fi_dupinfo(at(l, i));
	int error = c->info == NULL ? -FI_ENOMEM : fi_fabric(c->info->fabric_attr, &c->fabric, NULL);
	if (error != 0) {
		fb_close(c);
		return error;
	}
	*out = c;
	return 0;
}

void fb_close(fb_context *c)
{
	if (c->fabric != NULL)
		fi_close(&c->fabric->fid);
	if (c->info != NULL)
		fi_freeinfo(c->info);
	free(c);
}
