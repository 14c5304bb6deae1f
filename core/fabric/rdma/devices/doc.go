// Package devices opens RDMA devices of any provider.
package devices
