// Package objects tracks the open objects of an RDMA device, which close with it in order.
package objects
