// Package control holds the control path that all transports share: the
// registry behind Transport.NewWorker and Close ([Workers]), the table of
// connections behind Worker.Connect ([Peers]), the errors that workers return
// ([Name], [PeerErrors]), the check of limits ([CheckLimits]), the queue of lost peers
// ([LostPeers]), what goes on with closed workers of a library ([Reaper]), and where a
// thread sleeps until the library has work ([Parking]).
//
// Post, Flush and Poll stay in each transport: they index [Peers.ByID] and return
// errors that were made when the peer connected, and call nothing else here but
// [LostPeers.Report].
package control
