internal import Bytes
internal import Engine
internal import JSON
internal import Vocabulary
internal import Wire

/// Versions of other clusters: SET_WITH_META, ADD_WITH_META and DELETE_WITH_META.
extension Connection {
    func storeWithMeta(_ request: CommandContext, _ completion: Completion?) -> Execution {
        let isDeletion = request.command.opcode == .deleteWithMeta
        let version: ForeignVersion
        switch foreignVersion(request, isDeletion: isDeletion) {
        case .success(let accepted): version = accepted
        case .failure(let refusal):
            return refuse(request, refusal.status, refusal.reason)
        }
        let bucket = selectedBucket
        guard let document = document(request, bucket) else { return .done }
        let operations = operations(request, on: bucket, completion)
        var meta = version.meta
        if !isDeletion {
            meta.expiry = ExpiryField.bounded(meta.expiry, maxTTL: bucket.maxTTL, turn)
        }
        var options = WithMetaRequest.Options()
        if request.command.opcode == .addWithMeta { options.insert(.adds) }
        if version.options.contains(.skipsConflictResolution) {
            options.insert(.skipsConflictResolution)
        }
        if version.options.contains(.regeneratesCAS) { options.insert(.regeneratesCAS) }
        let operation = WithMetaRequest(
            key: document.key,
            hash: document.hash,
            value: version.value,
            meta: meta,
            options: options
        )
        guard var operation else {
            let text = "A version's CAS has 63 bits and is not 0, and its revision has 48 bits."
            return refuse(request, .invalid, text)
        }
        operation.cas = request.frame.cas
        let result = operations.storeWithMeta(document, operation)
        return finishWrite(request, result, of: document, in: bucket, completion: completion)
    }

    /// A version as a request has it; the value is borrowed.
    private struct ForeignVersion {
        var meta: DocumentMeta
        /// In the stored form.
        let value: ByteView
        let options: WithMetaExtras.Options
    }

    fileprivate struct Refusal: Error {
        let status: Status
        let reason: String

        init(_ reason: String, _ status: Status = .invalid) {
            self.status = status
            self.reason = reason
        }
    }

    private func foreignVersion(
        _ request: CommandContext,
        isDeletion: Bool
    ) -> Result<ForeignVersion, Refusal> {
        let frame = request.frame
        guard let extras = WithMetaExtras(frame.extras),
            extras.extendedCount <= frame.value.count
        else { return .failure(Refusal("The extended metadata is longer than the value.")) }
        if let flaw = extras.flaw(isDeletion: isDeletion) { return .failure(Refusal(flaw)) }
        let whole = frame.value.slice(0, frame.value.count - extras.extendedCount)
        return storedForm(whole, frame.datatype, isDeletion: isDeletion).map { value, datatype in
            let meta = DocumentMeta(
                cas: extras.cas,
                revision: extras.revision,
                flags: extras.flags,
                expiry: extras.expiry,
                datatype: datatype,
                isDeleted: isDeletion,
                isExpired: extras.options.contains(.isExpiration)
            )
            return ForeignVersion(meta: meta, value: value, options: extras.options)
        }
    }

    /// The stored form of a value, which may have extended attributes in front of its body.
    private func storedForm(
        _ value: ByteView,
        _ said: Datatype,
        isDeletion: Bool
    ) -> Result<(ByteView, Datatype), Refusal> {
        var agreed: Datatype = isJSONAgreed ? .json : []
        if features.contains(.xattr) { agreed.insert(.xattr) }
        guard said.isSubset(of: agreed) else {
            return .failure(Refusal("The datatype was not agreed on."))
        }
        guard said.contains(.xattr) else {
            guard !isDeletion || value.isEmpty else {
                return .failure(Refusal("A deletion has no value but system attributes."))
            }
            guard value.count <= Limits.valueBytesMax else { return .failure(.tooBig) }
            return .success((value, isDeletion ? [] : datatype(ofBody: value)))
        }
        guard !XattrBlob.hasTooManyPairs(value) else {
            let text = "A document has at most \(Limits.xattrCountMax) extended attributes."
            return .failure(Refusal(text, .tooBig))
        }
        guard let blob = XattrBlob(value) else {
            return .failure(Refusal("The extended attributes are malformed.", .xattrInvalid))
        }
        guard blob.isWithinLimits else { return .failure(.tooBig) }
        guard access.privileges.contains(.systemXattrWrite) || !blob.hasSystemKeys else {
            let text = "A version with system attributes needs the privilege SystemXattrWrite."
            return .failure(Refusal(text, .accessDenied))
        }
        if isDeletion {
            let hasSystemAlone = blob.allSatisfy { XattrBlob.isSystemKey($0.key) }
            guard blob.body.isEmpty, hasSystemAlone else {
                return .failure(Refusal("A deletion has no value but system attributes."))
            }
            return .success(blob.isEmpty ? (.empty, []) : (value, .xattr))
        }
        let body = datatype(ofBody: blob.body)
        return .success(
            blob.isEmpty ? (blob.body, body) : (value, body.union(.xattr))
        )
    }

    /// The body decides about JSON, and not the request, as for a plain SET.
    private func datatype(ofBody body: ByteView) -> Datatype {
        context.validator.isDocument(body) ? .json : []
    }
}

extension Connection.Refusal {
    fileprivate static var tooBig: Self {
        Self("A value has at most 20 MiB, and 1 MiB of system attributes beside it.", .tooBig)
    }
}
