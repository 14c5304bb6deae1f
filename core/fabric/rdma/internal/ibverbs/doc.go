// Package ibverbs binds libibverbs for core/fabric/rdma, with the build tag ibverbs. Its C
// shim posts and polls many requests at one crossing, since ibv_post_send,
// ibv_post_recv and ibv_poll_cq are inline functions of a header.
package ibverbs
