// Command images makes the container images of the product and of each of its services, for amd64 and arm64, from the
// binaries that `make image` has built. For each image it writes an OCI image layout, a tar file of the layout, and the
// bill of materials of each binary. It needs no Docker and no network. From the same binaries, it makes the same bytes
// on every machine.
//
// It does not upload images. Command publish uploads the images of an installation in AWS. Every container engine can
// read the layouts. The package has only this file; package image has the formats.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/infra/image"
	"github.com/gatewright/gatewright/shared/base/release"
	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/management/docsearch/minilm"
)

// dataDir is the data folder of the product's image, the only folder that the product writes to.
const dataDir = "/var/lib/gatewright"

func main() {
	o := options{version: release.Version()}
	architectures := flag.String("architectures", "amd64 arm64", "the architectures, with spaces between")
	flag.StringVar(&o.tree, "tree", ".", "the checkout's folder")
	flag.StringVar(&o.binaries, "binaries", "dist", "the folder with a folder of binaries for each architecture")
	flag.StringVar(&o.out, "out", filepath.Join("dist", "images"), "the folder to write into")
	flag.StringVar(&o.revision, "revision", "", "the commit of the source, for the labels")
	flag.StringVar(&o.command, "command", "serve", "what the product's image runs, with spaces between the arguments")
	flag.Parse()
	o.architectures = strings.Fields(*architectures)
	if err := write(o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

// options has the options of the command. tree is the folder of the checkout, binaries has a folder for each
// architecture, and out is the folder for the images. revision is the commit, and command has the arguments of the
// product's image.
type options struct {
	tree, binaries, out, version, revision, command string
	// architectures are the architectures with binaries, as GOARCH values, in the order of the image index.
	architectures []string
}

// program is a program that gets an image.
type program struct {
	name string
	// binary is the path of the program below an architecture's folder.
	binary   string
	title    string
	contents image.Contents
}

// serverBinary is the name of the product's binary, in an image and in the folder of the binaries.
const serverBinary = "gatewright-server"

// programs returns the programs that get an image: the product and the services.
func programs(tree, command string) []program {
	list := []program{{"gatewright", serverBinary, "The whole product on one machine.", image.Contents{
		Path: "/" + serverBinary, Command: strings.Fields(command),
		// Temporary files are in the data folder, because no other folder is writable.
		Env:     []string{config.VarDataDir + "=" + dataDir, "TMPDIR=" + dataDir},
		Volumes: []string{dataDir}, Ports: []string{"80/tcp", "443/tcp"},
		DataFile: filepath.Join(tree, "shared", "management", "docsearch", "minilm", minilm.FileName),
	}}}
	for _, s := range functions.Services() {
		list = append(list, program{"gatewright-" + s.Name, filepath.Join(s.Name, "container"), s.Description, image.Contents{
			Path: "/service", Ports: []string{fmt.Sprintf("%d/tcp", s.Port.Listen)},
		}})
	}
	return list
}

// write writes the images and the bills of materials to files, and prints the path and the digest of each image.
func write(o options, out io.Writer) error {
	if err := os.MkdirAll(o.out, 0o750); err != nil {
		return fmt.Errorf("make the images' folder: %w", err)
	}
	for _, p := range programs(o.tree, o.command) {
		labels := p.labels(o)
		var images []v1.Image
		for _, architecture := range o.architectures {
			c := p.contents
			c.Binary, c.Architecture, c.Labels = filepath.Join(o.binaries, architecture, p.binary), architecture, labels
			img, err := image.New(c)
			if err != nil {
				return err
			}
			bill, err := image.SBOM(c.Binary, o.version)
			if err != nil {
				return err
			}
			path := filepath.Join(o.out, p.name+"-"+architecture+".cdx.json")
			if err := os.WriteFile(path, bill, 0o644); err != nil { //nolint:gosec // G306: for everybody to read
				return fmt.Errorf("write a bill of materials: %w", err)
			}
			images = append(images, img)
		}
		index, err := image.NewIndex(labels, images...)
		if err != nil {
			return err
		}
		folder := filepath.Join(o.out, p.name)
		if err := image.WriteLayout(folder, p.name+":"+o.tag(), index); err != nil {
			return err
		}
		digest, err := index.Digest()
		if err != nil {
			return fmt.Errorf("digest an image: %w", err)
		}
		_, _ = fmt.Fprintf(out, "%s.tar %s\n", folder, digest)
	}
	return nil
}

// tag returns the tag of the images: the version, or latest if the version is unknown.
func (o options) tag() string {
	if o.version == "" {
		return "latest"
	}
	return o.version
}

// labels returns the labels that describe the origin of an image. They have no time, because the time of the build
// would change the bytes.
func (p program) labels(o options) map[string]string {
	const name = "org.opencontainers.image."
	labels := map[string]string{
		name + "title": p.title, name + "source": "https://" + modulePath, name + "licenses": "Apache-2.0",
	}
	if o.version != "" {
		labels[name+"version"] = o.version
	}
	if o.revision != "" {
		labels[name+"revision"] = o.revision
	}
	return labels
}

// modulePath is the path of this module, which is the location of its source.
const modulePath = "github.com/gatewright/gatewright"
