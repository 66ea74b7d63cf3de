package client

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/reelhouse/reelhouse/chunk"
	"github.com/reelhouse/reelhouse/rpc/cloud"
)

// Entry is a data set or table.
type Entry struct {
	ID      chunk.TUID `json:"id"`
	Name    string     `json:"name"`
	Kind    string     `json:"kind"` // dataset, table, blueprint or asset
	Created time.Time  `json:"created"`
	Updated time.Time  `json:"updated"`
}

// Hidden reports whether the entry is one of those that servers make for themselves.
func (e Entry) Hidden() bool { return strings.HasPrefix(e.Name, "__") }

var kinds = map[cloud.EntryKind]string{
	cloud.EntryKind_ENTRY_KIND_DATASET:           "dataset",
	cloud.EntryKind_ENTRY_KIND_TABLE:             "table",
	cloud.EntryKind_ENTRY_KIND_BLUEPRINT_DATASET: "blueprint",
	cloud.EntryKind_ENTRY_KIND_ASSET_DATASET:     "asset",
}

func entryOf(m *cloud.EntryDetails) Entry {
	return Entry{idOf(m.GetId()), m.GetName(), kinds[m.GetEntryKind()], m.GetCreatedAt().AsTime(), m.GetUpdatedAt().AsTime()}
}

// Entries lists all entries by name.
func (c *Client) Entries(ctx context.Context) ([]Entry, error) {
	return c.find(ctx, &cloud.EntryFilter{EntryKinds: []cloud.EntryKind{
		cloud.EntryKind_ENTRY_KIND_DATASET, cloud.EntryKind_ENTRY_KIND_TABLE,
		cloud.EntryKind_ENTRY_KIND_BLUEPRINT_DATASET, cloud.EntryKind_ENTRY_KIND_ASSET_DATASET}})
}

func (c *Client) find(ctx context.Context, f *cloud.EntryFilter) ([]Entry, error) {
	res, err := c.cloud.FindEntries(ctx, &cloud.FindEntriesRequest{Filter: f})
	if err != nil {
		return nil, c.failed("list entries", err)
	}
	var all []Entry
	for _, e := range res.GetEntries() {
		all = append(all, entryOf(e))
	}
	slices.SortFunc(all, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// Entry finds an entry by its name or, if nothing has that name, by its id.
func (c *Client) Entry(ctx context.Context, nameOrID string) (Entry, error) {
	found, err := c.find(ctx, &cloud.EntryFilter{Name: &nameOrID})
	if err != nil {
		return Entry{}, err
	}
	if len(found) == 0 {
		if id, err := chunk.ParseTUID(nameOrID); err == nil {
			if found, err = c.find(ctx, &cloud.EntryFilter{Id: idMessage(id)}); err != nil {
				return Entry{}, err
			}
		}
	}
	if len(found) == 0 {
		return Entry{}, fmt.Errorf("%s: entry %q: %w", c.url, nameOrID, ErrNotFound)
	}
	return found[0], nil
}

// Dataset finds a data set by its name or id.
func (c *Client) Dataset(ctx context.Context, nameOrID string) (*Dataset, error) {
	e, err := c.Entry(ctx, nameOrID)
	if err != nil {
		return nil, err
	}
	if e.Kind == "table" {
		return nil, fmt.Errorf("%s: %q is a table, not a data set: %w", c.url, e.Name, ErrInvalid)
	}
	return &Dataset{c, e}, nil
}

// CreateDataset makes an empty data set.
func (c *Client) CreateDataset(ctx context.Context, name string) (*Dataset, error) {
	res, err := c.cloud.CreateDatasetEntry(ctx, &cloud.CreateDatasetEntryRequest{Name: &name})
	if err != nil {
		return nil, c.failed(fmt.Sprintf("create data set %q", name), err)
	}
	return &Dataset{c, entryOf(res.GetDataset().GetDetails())}, nil
}

// Delete removes an entry.
func (c *Client) Delete(ctx context.Context, e Entry) error {
	_, err := c.cloud.DeleteEntry(about(ctx, e.ID), &cloud.DeleteEntryRequest{Id: idMessage(e.ID)})
	return c.failed(fmt.Sprintf("delete %q", e.Name), err)
}

// Rename gives an entry another name.
func (c *Client) Rename(ctx context.Context, e Entry, name string) error {
	_, err := c.cloud.UpdateEntry(about(ctx, e.ID), &cloud.UpdateEntryRequest{Id: idMessage(e.ID), EntryDetailsUpdate: &cloud.EntryDetailsUpdate{Name: &name}})
	return c.failed(fmt.Sprintf("rename %q", e.Name), err)
}
