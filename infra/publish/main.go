// Command publish uploads the images of the installation's services before `make deploy` deploys it, to the same AWS
// account and region: to the repository that `cdk bootstrap` has created there. It reads a token and the registry's
// endpoint from its standard input, as `aws ecr get-authorization-token` prints them. So it stores no credentials and
// needs none of AWS's libraries. It does not upload an image that already exists.
//
// It is not part of package infra, which describes an installation and sends no requests. This is its only file.
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
	if err := publish(context.Background(), os.Stdin, *assets, *architecture, http.DefaultTransport,
		os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "publish:", err)
		os.Exit(1)
	}
}

// publish uploads the image of each service. It reads the authorization from its input (in), and writes progress to its
// output (out).
func publish(
	ctx context.Context, in io.Reader, assets, architecture string, transport http.RoundTripper, out io.Writer,
) error {
	repository, auth, err := readAuthorization(in)
	if err != nil {
		return err
	}
	for _, s := range functions.Services() {
		img, err := image.FromBinary(filepath.Join(assets, s.Name, "container"), architecture)
		if err != nil {
			return err
		}
		missing, err := image.Upload(ctx, img, repository, auth, transport)
		if err != nil {
			return err
		}
		status := "is there already"
		if missing {
			status = "is uploaded"
		}
		_, _ = fmt.Fprintf(out, "The image of %s %s.\n", s.Name, status)
	}
	return nil
}

// errNoToken is the error for an input that is not a token and the address of a registry.
var errNoToken = errors.New(`there is no token of a registry on the standard input: pipe the answer of
  aws ecr get-authorization-token --query 'authorizationData[0].[authorizationToken,proxyEndpoint]' --output text`)

// registryHost matches the host of an account's registry in a region.
var registryHost = regexp.MustCompile(`^([0-9]{12})\.dkr\.ecr(?:-fips)?\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?$`)

// readAuthorization reads a token and the address of the registry for which the token is valid. It returns the name of
// the repository for images in this registry. An error contains neither the token nor the address.
func readAuthorization(in io.Reader) (repository string, auth authn.Authenticator, err error) {
	const maxBytes = 64 << 10
	raw, err := io.ReadAll(io.LimitReader(in, maxBytes))
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
	return endpoint.Host + "/" + image.Repository(parts[1], parts[2]), &authn.Basic{Username: user, Password: password},
		nil
}
