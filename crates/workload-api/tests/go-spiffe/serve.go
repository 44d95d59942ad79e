package main

import (
	"context"
	"net"
	"time"

	"github.com/spiffe/go-spiffe/v2/proto/spiffe/workload"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

const (
	id     = "spiffe://team-a/valkeycluster/orders/sidecar"
	renews = 300 * time.Millisecond
)

type server struct {
	workload.UnimplementedSpiffeWorkloadAPIServer
	authority *authority
}

// serve gives every caller the sidecar's identity, and a new one several times a second.
func serve(socket string) error {
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	authority, err := newAuthority("spiffe://team-a")
	if err != nil {
		return err
	}
	answering := grpc.NewServer()
	workload.RegisterSpiffeWorkloadAPIServer(answering, &server{authority: authority})
	return answering.Serve(listener)
}

func (s *server) FetchX509SVID(_ *workload.X509SVIDRequest, stream grpc.ServerStreamingServer[workload.X509SVIDResponse]) error {
	if !guarded(stream.Context()) {
		return status.Error(codes.InvalidArgument, "security header missing from request")
	}
	for {
		answer, err := s.answer()
		if err != nil {
			return err
		}
		if err := stream.Send(answer); err != nil {
			return err
		}
		select {
		case <-stream.Context().Done():
			return nil
		case <-time.After(renews):
		}
	}
}

func guarded(ctx context.Context) bool {
	values := metadata.ValueFromIncomingContext(ctx, "workload.spiffe.io")
	return len(values) == 1 && values[0] == "true"
}

func (s *server) answer() (*workload.X509SVIDResponse, error) {
	leaf, key, err := s.authority.leaf(id)
	if err != nil {
		return nil, err
	}
	root := s.authority.certificate.Raw
	svid := &workload.X509SVID{SpiffeId: id, X509Svid: leaf, X509SvidKey: key, Bundle: root}
	return &workload.X509SVIDResponse{
		Svids:            []*workload.X509SVID{svid},
		FederatedBundles: map[string][]byte{"spiffe://valkey-system": root},
	}, nil
}
