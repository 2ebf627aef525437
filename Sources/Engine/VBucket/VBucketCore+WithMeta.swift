package import Bytes
package import Vocabulary

/// A version that another cluster made, with its CAS and revision.
package struct WithMetaRequest {
    package struct Options: OptionSet, Sendable {
        package let rawValue: UInt8

        package init(rawValue: UInt8) { self.rawValue = rawValue }

        /// Refused if there is a document.
        package static let adds = Self(rawValue: 1)
        /// Replaces the present version, even if it would win.
        package static let skipsConflictResolution = Self(rawValue: 2)
        /// Assigns a CAS here, and ignores the version's.
        package static let regeneratesCAS = Self(rawValue: 4)
    }

    package let key: ByteView
    package let hash: UInt64
    /// The whole stored form; a tombstone's too.
    package let value: ByteView
    /// CAS, revision, flags, expiry and datatype of the version, and whether it is a tombstone.
    ///
    /// The seqno is assigned here. A tombstone's expiry is the time of its deletion here, because
    /// purges compare it with this node's clock.
    package let meta: DocumentMeta
    /// The version to replace; `none` for any.
    package var cas = CAS.none
    package let options: Options

    /// A request whose metadata is valid; nil for a CAS or revision that this vBucket could not
    /// continue.
    ///
    /// - A CAS is nanoseconds since 1970 in 63 bits: later ones are greater, and the largest hides
    ///   a locked document's.
    /// - A revision has 48 bits, as in Couchbase.
    package init?(
        key: ByteView,
        hash: UInt64,
        value: ByteView,
        meta: DocumentMeta,
        options: Options = []
    ) {
        let isCASValid =
            options.contains(.regeneratesCAS) || (meta.cas != .none && meta.cas.value < 1 << 63)
        guard isCASValid, meta.revision < 1 << 48 else { return nil }
        self.key = key
        self.hash = hash
        self.value = value
        self.meta = meta
        self.options = options
    }
}

extension VBucketCore {
    /// Stores a version of another cluster: SET_WITH_META, ADD_WITH_META and DEL_WITH_META.
    ///
    /// Never a prepare: the other cluster has made the write already.
    ///
    /// - Returns: `done`, or `refused(.exists)` if the present version wins or is not the requested
    ///   one; otherwise as `store`.
    package mutating func storeWithMeta(
        _ request: WithMetaRequest,
        _ turn: borrowing ExecutionContext
    ) -> WriteResult {
        mutate(request.key, hash: request.hash, tombstones: true, turn) { core, place, old in
            if request.options.contains(.adds), old != nil { return .refused(.exists) }
            if let refusal = core.refusal(old, request.cas, turn) { return .refused(refusal) }
            var meta = request.meta
            if !request.options.contains(.skipsConflictResolution), let present = place?.item.meta,
                !meta.supersedes(present)
            {
                return .refused(.exists)
            }
            let count = request.value.count
            guard core.account.admits(count, of: count) else { return .wait(.room(count)) }
            meta.seqno = Seqno(core.highSeqno.value + 1)
            if request.options.contains(.regeneratesCAS) {
                meta.cas = core.clock.next(turn.wallNanoseconds)
            } else {
                core.clock.advance(past: meta.cas)
            }
            if meta.isDeleted { meta.expiry = turn.seconds }
            if let item = place?.item { core.forget(item) }
            core.count(meta)
            let isFirst = core.settle(
                meta,
                key: request.key,
                hash: request.hash,
                request.value,
                isFresh: true,
                at: place,
                turn
            )
            let wakes = core.takePendingWakeup() || isFirst
            return .done(core.stored(Put(cas: meta.cas, seqno: meta.seqno, wakesFlusher: wakes)))
        }
    }
}

extension DocumentMeta {
    /// Whether this version of another cluster wins over the present one.
    ///
    /// The higher revision wins; of equal ones the higher CAS, then the later expiry, then the
    /// greater flags. The same version twice, and a deletion with the present revision and CAS, do
    /// not win, so a repeated request changes nothing.
    func supersedes(_ present: DocumentMeta) -> Bool {
        if revision != present.revision { return revision > present.revision }
        if cas != present.cas { return cas > present.cas }
        if isDeleted { return false }
        if expiry != present.expiry { return expiry > present.expiry }
        return flags > present.flags
    }
}
