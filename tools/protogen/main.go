// Command protogen compiles .proto files and runs protoc plugins over them, so that generating
// code needs the Go tool chain alone. It takes the place of protoc for this repository.
//
//	protogen -I DIR -out DIR -module PREFIX -plugin NAME=BINARY[:PARAM,…] …
//
// All .proto files below the import directory are compiled. Files that the plugins return are
// written below the output directory, with the module prefix cut from their names.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/linker"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

func main() {
	var plugins []string
	include := flag.String("I", ".", "directory that holds the .proto files")
	out := flag.String("out", ".", "directory that generated files are written below")
	module := flag.String("module", "", "import path prefix cut from generated file names")
	flag.Func("plugin", "BINARY[:PARAM,…]; may be repeated", func(s string) error {
		plugins = append(plugins, s)
		return nil
	})
	flag.Parse()
	if err := run(*include, *out, *module, plugins); err != nil {
		fmt.Fprintln(os.Stderr, "protogen:", err)
		os.Exit(1)
	}
}

func run(include, out, module string, plugins []string) error {
	names, err := protoFiles(include)
	if err != nil {
		return err
	}
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{include}}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := compiler.Compile(context.Background(), names...)
	if err != nil {
		return err
	}
	descriptors := inDependencyOrder(files)
	for _, p := range plugins {
		binary, params, _ := strings.Cut(p, ":")
		if module != "" {
			params = strings.TrimPrefix(params+",module="+module, ",")
		}
		if err := runPlugin(binary, params, names, descriptors, out); err != nil {
			return fmt.Errorf("plugin %s: %w", binary, err)
		}
	}
	return nil
}

// protoFiles lists the .proto files below dir by slash-separated relative path, sorted.
func protoFiles(dir string) ([]string, error) {
	var names []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".proto" {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		names = append(names, filepath.ToSlash(rel))
		return err
	})
	sort.Strings(names)
	return names, err
}

// inDependencyOrder lists the files and all they import, imports first, as plugins expect.
func inDependencyOrder(files linker.Files) []*descriptorpb.FileDescriptorProto {
	var ordered []*descriptorpb.FileDescriptorProto
	seen := map[string]bool{}
	var visit func(f linker.File)
	visit = func(f linker.File) {
		if seen[f.Path()] {
			return
		}
		seen[f.Path()] = true
		imports := f.Imports()
		for i := range imports.Len() {
			visit(f.FindImportByPath(imports.Get(i).Path()))
		}
		ordered = append(ordered, protoutil.ProtoFromFileDescriptor(f))
	}
	for _, f := range files {
		visit(f)
	}
	return ordered
}

func runPlugin(binary, params string, names []string, files []*descriptorpb.FileDescriptorProto, out string) error {
	request, err := proto.Marshal(&pluginpb.CodeGeneratorRequest{
		FileToGenerate:  names,
		Parameter:       proto.String(params),
		ProtoFile:       files,
		CompilerVersion: &pluginpb.Version{Major: proto.Int32(6)},
	})
	if err != nil {
		return err
	}
	var stdout bytes.Buffer
	cmd := exec.Command(binary)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(request), &stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return err
	}
	var response pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(stdout.Bytes(), &response); err != nil {
		return err
	}
	if response.Error != nil {
		return errors.New(response.GetError())
	}
	for _, f := range response.File {
		path := filepath.Join(out, filepath.FromSlash(f.GetName()))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(f.GetContent()), 0o644); err != nil {
			return err
		}
	}
	return nil
}
