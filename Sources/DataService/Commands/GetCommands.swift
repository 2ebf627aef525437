internal import Bytes
internal import Engine
internal import Vocabulary
internal import Wire

extension Connection {
    @inline(__always)
    func get(_ request: CommandContext, _ completion: Completion?) -> Execution {
        features.hasSnappy
            ? getCompressed(request, completion) : getPlain(request, completion)
    }

    /// GET and GETK with an answer that is compressed if that makes it smaller.
    @inline(never)
    private func getCompressed(_ request: CommandContext, _ completion: Completion?) -> Execution {
        let start = output.count
        let execution = getPlain(request, completion)
        // An answer without a document is shorter.
        if output.count - start > CompressedFrame.valueBytesMin { compressAnswer(at: start) }
        return execution
    }

    private func getPlain(_ request: CommandContext, _ completion: Completion?) -> Execution {
        let bucket = selectedBucket
        guard let document = document(request, bucket) else { return .done }
        let withKey = request.command.opcode == .getKey
        let result = operations(request, on: bucket, completion).get(document) { item, cas in
            guard hasRoom(for: item) else { return answerNoReplyMemory(request) }
            appendDocument(item, cas, to: request, withKey: withKey)
        }
        switch result {
        case .done: return .done
        case .refused(.notFound):
            miss(request)
            return .done
        default:
            return finishRead(request, result, of: document, in: bucket, completion: completion)
        }
    }

    /// GET_REPLICA: reads a replica, which may be stale.
    func getReplica(_ request: CommandContext, _ completion: Completion?) -> Execution {
        let bucket = selectedBucket
        guard let document = replicaDocument(request, bucket) else { return .done }
        let result = operations(request, on: bucket, completion).getReplica(document) {
            item,
            cas in
            guard hasRoom(for: item) else { return answerNoReplyMemory(request) }
            appendDocument(item, cas, to: request)
        }
        return finishRead(request, result, of: document, in: bucket, completion: completion)
    }

    /// Converts the result of a read into an answer or a wait; the visitor has answered a document
    /// that was found.
    ///
    /// A quiet request is not answered if the document does not exist.
    func finishRead(
        _ request: CommandContext,
        _ result: DocumentResult<Void>,
        of document: DocumentAddress,
        in bucket: OpenBucket,
        completion: Completion?
    ) -> Execution {
        switch result {
        case .done: return .done
        case .refused(.notFound) where request.command.isQuiet: return .done
        case .refused(let refusal):
            return refuse(request, for: refusal)
        case .wait(let wait):
            return self.wait(request, for: wait, of: document, bucket, completion)
        case .prepared: preconditionFailure("a read stores nothing")
        }
    }

    /// Answers that a document does not exist; memcached's GETK then still echoes the key.
    private func miss(_ request: CommandContext) {
        guard !request.command.isQuiet else { return }
        guard request.command.opcode == .getKey, isMemcachedListener else {
            return answer(.notFound, request)
        }
        ResponseEncoder.append(
            .keyNotFound,
            to: output,
            replyTo: request.replyTo,
            key: request.frame.key,
            value: .empty
        )
    }

    /// Appends a document's answer, copied from the item: its body without extended attributes.
    ///
    /// Called under the vBucket's lock.
    @inline(__always)
    func appendDocument(
        _ item: Item,
        _ cas: CAS,
        to request: CommandContext,
        withKey: Bool = false
    ) {
        guard !withKey, !item.hasAttributes else {
            return appendRarely(item, cas, to: request, withKey: withKey)
        }
        append(item, item.value, cas, request)
    }

    /// Appends the answer of a document that has attributes, or with its key.
    @inline(never)
    private func appendRarely(
        _ item: Item,
        _ cas: CAS,
        to request: CommandContext,
        withKey: Bool
    ) {
        guard withKey else { return append(item, item.body, cas, request) }
        append(item, cas, request, key: request.frame.key)
    }

    @inline(__always)
    private func append(_ item: Item, _ value: ByteView, _ cas: CAS, _ request: CommandContext) {
        ResponseEncoder.appendDocument(
            to: output,
            replyTo: request.replyTo,
            datatype: agreedDatatype(of: item),
            cas: cas,
            flags: item.flags,
            value: value,
            duration: duration
        )
    }

    private func append(_ item: Item, _ cas: CAS, _ request: CommandContext, key: ByteView) {
        withUnsafeBytes(of: item.flags.bigEndian) { flags in
            respond(
                request,
                .success,
                datatype: agreedDatatype(of: item),
                cas: cas,
                extras: ByteView(flags),
                key: key,
                value: item.body
            )
        }
    }

    @inline(__always)
    private func agreedDatatype(of item: Item) -> Datatype {
        isJSONAgreed ? item.datatype.intersection(.json) : []
    }

    /// GET_RANDOM_KEY: a document of an active copy on this node, with its key.
    ///
    /// Extras: none, or collection 4, and optionally 1 byte that requests attributes.
    func getRandomKey(_ request: CommandContext, _ completion: Completion?) -> Execution {
        let extras = request.frame.extras
        guard extras.isEmpty || extras.bigEndian(at: 0, as: UInt32.self) == 0 else {
            return refuse(request, .unknownCollection, "Only the default collection, 0, exists.")
        }
        guard extras.count < 5 || extras[4] == 0 else {
            let text = "GET_RANDOM_KEY answers with the body, without attributes."
            return refuse(request, .notSupported, text)
        }
        let bucket = selectedBucket
        guard mayAnswerForActiveCopy, let key = RandomKey(service).find(in: bucket, .activeCopy)
        else { return refuse(request, for: .notFound) }
        return key.withUnsafeBytes { bytes in
            let key = ByteView(bytes)
            let id = VBucketID(ofKey: key, count: bucket.engine.count)
            guard let vBucket = bucket.engine[id.number] else {
                preconditionFailure("a key's vBucket is one of its bucket's")
            }
            let document = DocumentAddress(
                key: key,
                hash: service.hash(key),
                id: id,
                vBucket: vBucket
            )
            let result = operations(request, on: bucket, completion).get(document) { item, cas in
                guard hasRoom(for: item) else { return answerNoReplyMemory(request) }
                append(item, cas, request, key: key)
            }
            return finishRead(request, result, of: document, in: bucket, completion: completion)
        }
    }

    func getMeta(_ request: CommandContext, _ completion: Completion?) -> Execution {
        let extras = request.frame.extras
        let version = extras.isEmpty ? 1 : extras[0]
        guard version <= 2 else {
            return refuse(request, .invalid, "GET_META has versions 1 and 2.")
        }
        let bucket = selectedBucket
        guard let document = document(request, bucket) else { return .done }
        let result = operations(request, on: bucket, completion).getMeta(document) { item, cas in
            appendMeta(item.meta, cas, to: request, withDatatype: version == 2)
        }
        return finishRead(request, result, of: document, in: bucket, completion: completion)
    }

    /// Extras: deleted 4, flags 4, expiry 4, revision 8, and in version 2 datatype 1.
    private func appendMeta(
        _ meta: DocumentMeta,
        _ cas: CAS,
        to request: CommandContext,
        withDatatype: Bool
    ) {
        let extras = context.scratch
        extras.removeAll()
        extras.append(bigEndian: UInt32(meta.isDeleted ? 1 : 0))
        extras.append(bigEndian: meta.flags)
        extras.append(bigEndian: meta.expiry)
        extras.append(bigEndian: meta.revision)
        if withDatatype { extras.append(meta.datatype.rawValue) }
        respond(request, .success, cas: cas, extras: extras.view)
    }
}
