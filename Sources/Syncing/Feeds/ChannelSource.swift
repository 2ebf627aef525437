package import SyncWire

/// A row of a channel's log: a version of a document that is in the channel, or left it.
package struct LogRow: Hashable, Sendable {
    package struct Flags: OptionSet, Hashable, Sendable {
        package let rawValue: UInt8
        package init(rawValue: UInt8) { self.rawValue = rawValue }

        /// The document left the channel with this version.
        package static let removed = Flags(rawValue: 1)
        /// The version is a tombstone.
        package static let deleted = Flags(rawValue: 2)
        /// The document has several leaves.
        package static let branched = Flags(rawValue: 4)
        /// A user or a role; its id begins with `_user/` or `_role/`, and it has no revision.
        package static let principal = Flags(rawValue: 8)
        /// The document has several live leaves; only shown.
        package static let conflict = Flags(rawValue: 16)
        /// The newest revision of the document is not the winner; only shown.
        package static let hidden = Flags(rawValue: 32)
    }

    package let sequence: UInt64
    /// The document's id.
    package let document: [UInt8]
    package let revision: RevisionID?
    package let flags: Flags
    /// The sequence at which the document entered the channel for the first time: a device that had the
    /// channel later may have the document.
    package let entered: UInt64

    package init(
        _ sequence: UInt64,
        _ document: [UInt8],
        revision: RevisionID?,
        flags: Flags = [],
        entered: UInt64
    ) {
        self.sequence = sequence
        self.document = document
        self.revision = revision
        self.flags = flags
        self.entered = entered
    }

    package var isRemoval: Bool { flags.contains(.removed) }
}

/// A channel in whose log a version has a row.
package struct ChannelMembership: Hashable, Sendable {
    package let channel: ChannelName
    package let isRemoval: Bool

    package init(_ channel: ChannelName, isRemoval: Bool) {
        self.channel = channel
        self.isRemoval = isRemoval
    }
}

/// The newest version of a document.
package struct NewestVersion: Hashable, Sendable {
    /// A channel that the document has left.
    package struct Removal: Hashable, Sendable {
        package let channel: ChannelName
        /// The sequence of the version that left.
        package let sequence: UInt64
        /// Whether the version was a tombstone.
        package let isDeletion: Bool
    }

    package let row: LogRow
    package let channels: [ChannelName]
    package let removals: [Removal]
}

/// The source of a feed: the logs of channels, in one snapshot.
///
/// The log of a channel has one row for each document that is or was in it: the newest version in the
/// channel, or that with which the document left. The log of `*` has the newest version of each document
/// and principal.
package protocol ChannelSource {
    associatedtype Failure: Error

    /// The first rows of a channel after `sequence`, in order; fewer than `count` only at the end.
    ///
    /// - Throws: `Failure` if the log cannot be read.
    func rows(
        of channel: ChannelName,
        after sequence: UInt64,
        atMost count: Int
    ) throws(Failure) -> [LogRow]

    /// All channels in whose logs the version of `row` has a row, with `*` if it is the newest one.
    ///
    /// - Throws: `Failure` if the log cannot be read.
    func memberships(of row: LogRow) throws(Failure) -> [ChannelMembership]

    /// The newest version of a document, as a row of `*`; nil if there is none.
    ///
    /// - Throws: `Failure` if the log cannot be read.
    func newest(_ document: [UInt8]) throws(Failure) -> NewestVersion?
}
