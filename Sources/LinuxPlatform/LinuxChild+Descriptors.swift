internal import Bytes
internal import CLinux
internal import Glibc
internal import Seams

/// Reading, sending and ending: all system calls of a started child.
extension LinuxChild {
    // MARK: The channel

    func channelReady(_ events: UInt32) {
        if events & divan_event_out != 0 { shared.withLock { sendBacklog(&$0) } }
        readChannel()
    }

    /// Sends what waits, under the lock.
    func sendBacklog(_ shared: inout Shared) {
        guard let system = shared.system, !shared.isClosed else { return }
        var sent = 0
        while sent < shared.backlog.count {
            let rest = shared.backlog.view.dropFirst(sent)
            let count = Glibc.send(system.channel, rest.start, rest.count, Int32(MSG_NOSIGNAL))
            if count >= 0 {
                sent += count
            } else if errno != EINTR {
                // Any other error means that the child has closed its end, which the reader sees.
                if errno != EAGAIN { shared.isClosed = true }
                break
            }
        }
        shared.backlog.removeFirst(sent)
        if shared.isClosed || shared.backlog.count == 0 {
            shared.backlog.removeAll(keepingAtMost: LinuxChild.readBytes)
        }
        guard shared.isFull, shared.backlog.count == 0, !shared.isClosed else { return }
        shared.isFull = false
        shared.delivery.isDrained = true
        post(&shared)
    }

    /// Reads until the channel is empty or the handler has enough.
    func readChannel() { readChannel(upTo: LinuxChild.deliveryBytesMax) }

    private func readChannel(upTo most: Int) {
        shared.withLock { shared in
            guard let system = shared.system, !shared.hasEnded else { return }
            while shared.delivery.bytes.count < most {
                let bytes = shared.delivery.bytes
                let before = bytes.count
                let place = bytes.claim(LinuxChild.readBytes)
                let count = recv(system.channel, place, LinuxChild.readBytes, 0)
                let code = errno
                bytes.truncate(to: before + max(0, count))
                if count > 0 {
                    post(&shared)
                } else if count == 0 || code != EAGAIN && code != EINTR {
                    return recordEnd(&shared)
                } else if code == EAGAIN {
                    return
                }
            }
        }
    }

    private func recordEnd(_ shared: inout Shared) {
        guard !shared.hasEnded else { return }
        shared.hasEnded = true
        shared.isClosed = true
        shared.delivery.isClosed = true
        post(&shared)
    }

    // MARK: Messages

    /// Reads what the child writes to its standard output and error.
    func readMessages() { readMessages(upTo: LinuxChild.deliveryLinesMax) }

    private func readMessages(upTo most: Int) {
        shared.withLock { shared in
            guard let system = shared.system else { return }
            let buffer = ByteWriter(capacity: 4_096)
            while shared.delivery.lines.count < most {
                buffer.removeAll()
                let count = read(system.messages, buffer.claim(4_096), 4_096)
                if count < 0 && errno == EINTR { continue }
                // At the end of the stream there is nothing to do: a child may close its standard
                // error and continue.
                guard count > 0 else { return }
                let added = lines.append(buffer.view.slice(0, count))
                shared.delivery.lines += added
                if !added.isEmpty { post(&shared) }
            }
        }
    }

    // MARK: The end

    /// Reaps the child if it has ended, and delivers the rest of its bytes and its end.
    ///
    /// - Parameters:
    ///   - isForced: Whether the child was just killed, so that its end is certain and near.
    ///   - failure: The reason for which it counts as not started; nil if it ran.
    func finish(isForced: Bool, failure: ChildError?) {
        guard let system = shared.withLock({ $0.system }) else { return }
        // The system does not know the signal, unless this process reaps the child.
        var (status, isSignal): (Int32, Int32) = (0, 1)
        if system.handle >= 0 {
            let milliseconds: Int32 = isForced ? 1_000 : 0
            let code = divan_end_of_child(system.handle, milliseconds, &status, &isSignal)
            guard code != 0 || isForced else { return }
        }
        let end = isSignal != 0 ? ChildEnd.signalled(status) : .exited(status: status)
        conclude(failure.map { .notStarted($0) } ?? end)
    }

    /// Delivers the rest of the bytes of a child that has ended, and its end.
    ///
    /// - Returns: Whether it had been started, and had no end yet.
    @discardableResult
    func conclude(_ end: ChildEnd) -> Bool {
        guard let system = shared.withLock({ $0.system }) else { return false }
        readMessages(upTo: LinuxChild.lastLinesMax)
        readChannel(upTo: LinuxChild.lastBytesMax)
        close(system)
        deliver { delivery in
            if let last = lines.finish() { delivery.lines.append(last) }
            delivery.end = end
        }
        return true
    }

    /// The loop stops: the child must not outlive it.
    func abandon() {
        kill()
        finish(isForced: true, failure: nil)
    }

    /// Closes the descriptors under the lock, so that no other thread uses them.
    private func close(_ system: divan_child) {
        shared.withLock { shared in
            shared.system = nil
            shared.isClosed = true
            shared.backlog.removeAll(keepingAtMost: 16)
            for (place, descriptor) in [system.channel, system.messages, system.handle].enumerated()
            where descriptor >= 0 {
                if slots.indices.contains(place) {
                    loop?.unwatch(descriptor, slot: slots[place])
                } else {
                    Glibc.close(descriptor)
                }
            }
            if system.memory >= 0 { Glibc.close(system.memory) }
            slots = []
        }
    }
}
