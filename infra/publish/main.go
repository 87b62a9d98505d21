// Command publish uploads the images of the installation's services to the AWS
// account and region that `make deploy` deploys to, before it does: to the repository
// that `cdk bootstrap` has made there. It reads from its standard input what
// `aws ecr get-authorization-token` prints of token and endpoint, so that it holds no
// credentials and needs none of AWS's libraries. An image that is there stays as it is.
//
// What it is not: a part of package infra, which describes an installation and calls
// nothing. There is only this file.
package main

import (
	"context"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"

	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/infra/image"
)

func main() {
	assets := flag.String("assets", filepath.Join("dist", "arm64"), "the folder with a folder for each service")
	architecture := flag.String("architecture", "arm64", "the binaries' architecture: arm64 or amd64")
	flag.Parse()
	if err := publish(context.Background(), os.Stdin, *assets, *architecture, http.DefaultTransport, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "publish:", err)
		os.Exit(1)
	}
}

// publish uploads the image of each service. in has the authorization, out is told.
func publish(ctx context.Context, in io.Reader, assets, architecture string, by http.RoundTripper, out io.Writer) error {
	repository, as, err := authorized(in)
	if err != nil {
		return err
	}
	for _, s := range functions.Services() {
		made, err := image.Of(filepath.Join(assets, s.Name, "container"), architecture)
		if err != nil {
			return err
		}
		missing, err := image.Upload(ctx, made, repository, as, by)
		if err != nil {
			return err
		}
		done := "is there already"
		if missing {
			done = "is uploaded"
		}
		_, _ = fmt.Fprintf(out, "The image of %s %s.\n", s.Name, done)
	}
	return nil
}

var errNoToken = errors.New(`there is no token of a registry on the standard input: pipe the answer of
  aws ecr get-authorization-token --query 'authorizationData[0].[authorizationToken,proxyEndpoint]' --output text`)

// registryHost is the host of an account's registry in a region.
var registryHost = regexp.MustCompile(`^([0-9]{12})\.dkr\.ecr(?:-fips)?\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?$`)

// authorized reads a token and the address of the registry that it is for. An error
// repeats neither.
func authorized(in io.Reader) (repository string, as authn.Authenticator, err error) {
	const most = 64 << 10
	raw, err := io.ReadAll(io.LimitReader(in, most))
	if err != nil {
		return "", nil, fmt.Errorf("read the token: %w", err)
	}
	fields := strings.Fields(string(raw))
	if len(fields) != 2 {
		return "", nil, errNoToken
	}
	plain, err := base64.StdEncoding.DecodeString(fields[0])
	user, password, ok := strings.Cut(string(plain), ":")
	if err != nil || !ok {
		return "", nil, errNoToken
	}
	endpoint, err := url.Parse(fields[1])
	if err != nil || endpoint.Scheme != "https" {
		return "", nil, errNoToken
	}
	parts := registryHost.FindStringSubmatch(endpoint.Host)
	if parts == nil {
		return "", nil, errNoToken
	}
	return endpoint.Host + "/" + image.Repository(parts[1], parts[2]), &authn.Basic{Username: user, Password: password}, nil
}
