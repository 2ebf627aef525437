package import Orchestration
internal import Seams
package import Vocabulary

/// Design documents of buckets: read, put, delete.
package final class DesignDocumentService: Sendable {
    let cluster: Cluster

    init(_ cluster: Cluster) { self.cluster = cluster }

    /// The design documents of a bucket, sorted by the bytes of their names; nil if there is no such
    /// bucket.
    package func documents(ofBucket name: String) -> [DesignDocument]? {
        cluster.state.bucket(named: name)?.designDocuments
    }

    /// The design document `name`, without `_design/`; nil if there is no such bucket or document.
    package func document(_ name: String, ofBucket bucket: String) -> DesignDocument? {
        cluster.state.bucket(named: bucket)?.designDocument(named: name)
    }

    /// Creates or replaces a design document; returns once it is agreed on and applied here.
    ///
    /// Without a precondition the last request wins. A text that is equal to the present one keeps its
    /// revision.
    ///
    /// - Parameters:
    ///   - name: Without `_design/`.
    ///   - body: The text as its author sent it.
    ///   - bucket: The bucket's name.
    ///   - precondition: The revision that the document must have.
    /// - Returns: The document as it is then.
    /// - Throws: `unknown`, `differs`, `refused`, `busy` or `failed`.
    package func putDesignDocument(
        _ name: String,
        body: [UInt8],
        inBucket bucket: String,
        precondition: Precondition<String> = .any
    ) async throws(AdministrationError) -> DesignDocument {
        let record = try cluster.requireBucket(named: bucket)
        guard body.count <= Limits.designDocumentBytesMax else {
            throw .refused(
                "The design document has \(body.count) bytes; at most "
                    + "\(Limits.designDocumentBytesMax) are possible."
            )
        }
        let definition: DesignDefinition
        do throws(DesignFlaw) {
            try DesignDefinition.check(name: name)
            definition = try DesignDefinition(of: body)
        } catch {
            throw .refused(error.description)
        }
        let change = DesignDocumentChange(
            bucket: record.settings.uuid,
            name: name,
            body: DesignDocument.compacted(body),
            was: try basis(record.designDocument(named: name), precondition)
        )
        // Before the sources of many views are checked.
        if let refusal = cluster.state.refusal(of: change), refusal != .changedMeanwhile {
            throw error(for: refusal, change)
        }
        try requireDescriptors(for: definition, in: record)
        do throws(DesignFlaw) {
            try await checkSources(of: definition, forBucket: record.settings.uuid)
        } catch {
            throw .refused(error.description)
        }
        guard let document = try await carry(change, inBucket: bucket) else {
            throw error(for: .changedMeanwhile)
        }
        return document
    }

    /// The revision that a change is based on; nil for any.
    private func basis(
        _ document: DesignDocument?,
        _ precondition: Precondition<String>
    ) throws(AdministrationError) -> DesignRevision? {
        guard precondition.permits(document?.revision.description) else {
            throw error(for: .changedMeanwhile)
        }
        return precondition == .any ? nil : document?.revision ?? .absent
    }

    /// Deletes a design document; returns once that is agreed on and applied here.
    ///
    /// - Parameters:
    ///   - name: Without `_design/`.
    ///   - bucket: The bucket's name.
    ///   - precondition: The revision that the document must have.
    /// - Throws: `unknown`, `differs` or `failed`.
    package func deleteDesignDocument(
        _ name: String,
        inBucket bucket: String,
        precondition: Precondition<String> = .any
    ) async throws(AdministrationError) {
        let record = try cluster.requireBucket(named: bucket)
        guard let document = record.designDocument(named: name) else {
            throw error(for: .designDocumentUnknown)
        }
        let removal = DesignDocumentRemoval(
            bucket: record.settings.uuid,
            name: name,
            was: try basis(document, precondition)
        )
        if let refusal = try await refusal(ofProposing: .deleteDesignDocument(removal)) {
            throw error(for: refusal)
        }
        cluster.logEvent(
            .info,
            .bucket,
            of: bucket,
            "Design document \"\(DesignDocument.idPrefix)\(name)\" of bucket \"\(bucket)\" was "
                + "deleted."
        )
    }

    /// Changes when the indexes of a design document are updated without a query.
    ///
    /// - Parameters:
    ///   - name: Without `_design/`.
    ///   - bucket: The bucket's name.
    ///   - updateMinChanges: Changes until an update; nil leaves the option as it is.
    ///   - replicaUpdateMinChanges: The same for the index of replicas.
    /// - Returns: The document as it is then.
    /// - Throws: As `putDesignDocument`.
    package func setUpdateMinChanges(
        ofDesignDocument name: String,
        inBucket bucket: String,
        updateMinChanges: Int?,
        replicaUpdateMinChanges: Int?
    ) async throws(AdministrationError) -> DesignDocument {
        // A round ends without a document if another request changed it meanwhile.
        for _ in 0..<10 {
            let record = try cluster.requireBucket(named: bucket)
            guard let document = record.designDocument(named: name) else {
                throw error(for: .designDocumentUnknown)
            }
            let change = DesignDocumentChange(
                bucket: record.settings.uuid,
                name: name,
                body: document.body(
                    updateMinChanges: updateMinChanges,
                    replicaUpdateMinChanges: replicaUpdateMinChanges
                ),
                was: document.revision
            )
            if let changed = try await carry(change, inBucket: bucket) { return changed }
        }
        throw .failed(
            "The design document is being changed by other requests. Reload and retry."
        )
    }

    // MARK: Parts

    /// Checks the source of every function; without a checker, none.
    private func checkSources(
        of definition: DesignDefinition,
        forBucket uuid: String
    ) async throws(DesignFlaw) {
        guard let scripts = cluster.settings.scripts else { return }
        for view in definition.views {
            var sources = [(ScriptKind.map, view.map)]
            if let reduce = view.reduce, view.hasCustomReduce { sources.append((.reduce, reduce)) }
            for (kind, source) in sources {
                guard let flaw = await scripts.flaw(in: source, of: kind, forBucket: uuid)
                else { continue }
                throw DesignFlaw(
                    "The \(kind.rawValue) function of the view \"\(view.name)\" has an error in "
                        + "line \(flaw.line): \(flaw.message)"
                )
            }
        }
    }

    /// Nil if the document has another revision than the change is based on.
    private func carry(
        _ change: DesignDocumentChange,
        inBucket bucket: String
    ) async throws(AdministrationError) -> DesignDocument? {
        // An early answer for what the log would refuse.
        if let refusal = cluster.state.refusal(of: change), refusal != .changedMeanwhile {
            throw error(for: refusal, change)
        }
        let old = document(change.name, ofBucket: bucket)
        if let refusal = try await refusal(ofProposing: .putDesignDocument(change)) {
            if refusal == .changedMeanwhile { return nil }
            throw error(for: refusal, change)
        }
        // Another request may have deleted it again.
        let number = (old?.revision.number ?? 0) &+ 1
        let new =
            document(change.name, ofBucket: bucket)
            ?? DesignDocument(name: change.name, body: change.body, number: number)
        if new.revision != old?.revision {
            cluster.logEvent(
                .info,
                .bucket,
                of: bucket,
                "Design document \"\(new.id)\" of bucket \"\(bucket)\" was "
                    + "\(old == nil ? "created" : "changed"): revision \(new.revision)."
            )
        }
        return new
    }

    private func refusal(
        ofProposing command: ClusterCommand
    ) async throws(AdministrationError) -> ClusterRefusal? {
        let outcome = try await cluster.proposeChange(command)
        guard case .refused(let refusal) = outcome else { return nil }
        return refusal
    }

    private func error(
        for refusal: ClusterRefusal,
        _ change: DesignDocumentChange? = nil
    ) -> AdministrationError {
        switch refusal {
        case .bucketUnknown, .designDocumentUnknown: .unknown
        case .changedMeanwhile: .differs
        case .designDocumentTooLarge: .refused(refusal.sentence)
        case .designDocumentsTooLarge: .refused(sumSentence(change))
        case .tooManyViews: .refused(countSentence(change))
        default: .failed(refusal.sentence)
        }
    }

    private func countSentence(_ change: DesignDocumentChange?) -> String {
        guard let change else { return ClusterRefusal.tooManyViews.sentence }
        let state = cluster.state
        let bucket = state.buckets.first { $0.settings.uuid == change.bucket }
        let old = bucket?.designDocument(named: change.name)
        let sum = state.designViews(with: change, replacing: old)
        return
            "With the document \"\(DesignDocument.idPrefix)\(change.name)\" the buckets would have "
            + "\(sum) views; at most \(Limits.viewsOfAllMax) are possible. Delete views that are not "
            + "used."
    }

    private func sumSentence(_ change: DesignDocumentChange?) -> String {
        guard let change else { return ClusterRefusal.designDocumentsTooLarge.sentence }
        let state = cluster.state
        let bucket = state.buckets.first { $0.settings.uuid == change.bucket }
        let old = bucket?.designDocument(named: change.name)
        let sum = state.designBytes(with: change, replacing: old)
        return "With the document \"\(DesignDocument.idPrefix)\(change.name)\" the design "
            + "documents of all buckets would have \(sum) bytes "
            + "(text, name, and \(Limits.designOverheadBytes) for each); at most "
            + "\(Limits.designDocumentsBytesMax) are possible. Delete documents that are not used."
    }

    // MARK: Descriptors

    /// Checks that this node may have the files of all its indexes open, with those of a new design document.
    ///
    /// An index without work has no open file, and the next change of its bucket opens it.
    ///
    /// - Throws: `busy` with the numbers and the cure.
    func requireDescriptors(
        for definition: DesignDefinition,
        in bucket: BucketRecord
    ) throws(AdministrationError) {
        guard let openCount = cluster.settings.openIndexCount?() else { return }
        let present = bucket.maps
        let newCount = Set(definition.views.map(\.map)).subtracting(present).count
        let restingCount = max(
            0,
            cluster.state.buckets.reduce(0) { $0 + $1.maps.count } - openCount
        )
        let files = (newCount + restingCount) * Limits.descriptorsPerIndex
        guard newCount > 0, let obstacle = cluster.descriptors.obstacle(toOpening: files) else {
            return
        }
        throw .busy(
            "The design document is refused: \(newCount) new indexes would be open beside "
                + "\(restingCount) of this node that have no work now. \(obstacle)"
        )
    }
}

extension BucketRecord {
    /// The different map functions of the bucket's design documents: each is an index.
    fileprivate var maps: Set<String> {
        Set(designDocuments.flatMap { $0.definition.views.map(\.map) })
    }
}
