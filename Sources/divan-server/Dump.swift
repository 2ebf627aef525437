import Bytes
import Foundation
import LinuxPlatform
import Server

/// `--dump`: documents on standard output, what is not shown or cannot be read on standard error.
enum Dump {
    static func write(_ directory: String) throws {
        let dump = DataDump(disk: LinuxDisk())
        let tell = { (text: String) in
            FileHandle.standardError.write(Data("divan-server: \(text)\n".utf8))
        }
        try dump.lines(
            of: directory,
            damage: tell,
            note: tell,
            write: { FileHandle.standardOutput.write(Data($0.bytes)) }
        )
    }
}
