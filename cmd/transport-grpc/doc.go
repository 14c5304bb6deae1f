// Command transport-grpc is the plugin of the grpc transport.
package main
