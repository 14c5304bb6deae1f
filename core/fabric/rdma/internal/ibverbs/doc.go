// Package ibverbs binds libibverbs for core/fabric/rdma, with the build tag ibverbs. The library is
// opened at run time, so a program starts without it. The C shim posts and polls many requests with
// one call from Go into C. It is needed in any case because ibv_post_send, ibv_post_recv and
// ibv_poll_cq are inline functions.
package ibverbs
