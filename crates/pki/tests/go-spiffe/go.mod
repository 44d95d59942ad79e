module valkey.io/operator/pki/tests

go 1.25

require github.com/spiffe/go-spiffe/v2 v2.9.0
