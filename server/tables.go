package server

import (
	"context"
	"errors"
	"fmt"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/reelhouse/reelhouse/catalog"
	"github.com/reelhouse/reelhouse/rpc/cloud"
	"github.com/reelhouse/reelhouse/rpc/common"
)

// The system table of entries is the only table.

var errNoTables = errors.New("the server has no storage for tables")

// CreateTableEntry is refused: there is no storage for tables.
func (s *cloudService) CreateTableEntry(context.Context, *cloud.CreateTableEntryRequest) (*cloud.CreateTableEntryResponse, error) {
	return nil, connect.NewError(connect.CodeFailedPrecondition, errNoTables)
}

// RegisterTable is not implemented.
func (s *cloudService) RegisterTable(context.Context, *cloud.RegisterTableRequest) (*cloud.RegisterTableResponse, error) {
	return nil, unimplemented("tables are not implemented")
}

// WriteTable is not implemented.
func (s *cloudService) WriteTable(context.Context, *connect.ClientStream[cloud.WriteTableRequest]) (*cloud.WriteTableResponse, error) {
	return nil, unimplemented("tables are not implemented")
}

// UpdateTableEntry is not implemented.
func (s *cloudService) UpdateTableEntry(ctx context.Context, req *cloud.UpdateTableEntryRequest) (*cloud.UpdateTableEntryResponse, error) {
	if _, err := s.table(ctx, req.GetId(), "table with entry ID '%s' not found"); err != nil {
		return nil, err
	}
	return nil, unimplemented("system tables cannot be changed")
}

// table is the system table, if a call is about it.
func (s *cloudService) table(ctx context.Context, body *common.EntryId, notFound string) (catalog.Entry, error) {
	id, err := entryID(ctx, body)
	if err != nil {
		return catalog.Entry{}, err
	}
	e, ok := s.catalog.IsEntriesTable(id)
	if !ok {
		return e, connect.NewError(connect.CodeNotFound, &catalog.Error{Kind: catalog.ErrNotFound, Text: fmt.Sprintf(notFound, id)})
	}
	return e, nil
}

// ReadTableEntry describes the system table.
func (s *cloudService) ReadTableEntry(ctx context.Context, req *cloud.ReadTableEntryRequest) (*cloud.ReadTableEntryResponse, error) {
	e, err := s.table(ctx, req.GetId(), "table with entry ID '%s' not found")
	if err != nil {
		return nil, err
	}
	value, err := proto.Marshal(&cloud.SystemTable{Kind: cloud.SystemTableKind_SYSTEM_TABLE_KIND_ENTRIES})
	if err != nil {
		return nil, err
	}
	return &cloud.ReadTableEntryResponse{Table: &cloud.TableEntry{Details: entryMessage(e), TableDetails: &cloud.TableDetails{},
		// Clients compare the type URL as a whole: no host part (spec/catalog.md 6).
		ProviderDetails: &anypb.Any{TypeUrl: "/rerun.cloud.v1alpha1.SystemTable", Value: value}}}, nil
}

// GetTableSchema is the schema of the system table.
func (s *cloudService) GetTableSchema(ctx context.Context, req *cloud.GetTableSchemaRequest) (*cloud.GetTableSchemaResponse, error) {
	if _, err := s.table(ctx, req.GetTableId(), "Entry with ID %s not found"); err != nil {
		return nil, err
	}
	return &cloud.GetTableSchemaResponse{Schema: encodeSchema(catalog.EntriesSchema())}, nil
}

// ScanTable is the content of the system table.
func (s *cloudService) ScanTable(ctx context.Context, req *cloud.ScanTableRequest, stream *connect.ServerStream[cloud.ScanTableResponse]) error {
	if _, err := s.table(ctx, req.GetTableId(), "Entry with ID %s not found"); err != nil {
		return err
	}
	b, err := s.catalog.EntriesBatch()
	return sendFrame(b, err, stream.Send, func(p *common.DataframePart) *cloud.ScanTableResponse {
		return &cloud.ScanTableResponse{DataframePart: p}
	})
}
