// Package ibverbs binds libibverbs for core/fabric/rdma, with the build tag ibverbs. Its C
// shim posts and polls many requests with one call from Go into C. The shim is needed in
// any case because ibv_post_send, ibv_post_recv and ibv_poll_cq are inline functions.
package ibverbs
