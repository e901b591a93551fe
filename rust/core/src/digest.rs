//! Fixed-size digests of messages and blocks, and the words for their parts.
//!
//! The numbers are part of the contract between the engines (`ullage/digests.py`, which
//! says what each means); a differential test compares them.

/// Who speaks. `None`: an entry that is no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Role {
    /// The user, or the host on their behalf.
    User = 0,
    /// The model.
    Assistant = 1,
    /// Instructions in the middle; also `developer`.
    System = 2,
    /// A result as `OpenAI` sends it.
    Tool = 3,
    /// No message: a boundary, metadata.
    #[default]
    None = 4,
}

/// What a content block is. A string content counts as one text block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
#[expect(missing_docs, reason = "each name is the block type it stands for")]
pub enum BlockKind {
    #[default]
    Text = 0,
    ToolUse = 1,
    ToolResult = 2,
    Thinking = 3,
    RedactedThinking = 4,
    Image = 5,
    Document = 6,
    ServerToolUse = 7,
    ServerToolResult = 8,
    SearchResult = 9,
    ContainerUpload = 10,
    Compaction = 11,
    Fallback = 12,
    ToolChange = 13,
    Unknown = 14,
}

/// How many block kinds there are.
pub const BLOCK_KINDS: usize = 15;

/// How many roles there are.
pub const ROLES: usize = 5;

macro_rules! flags {
    ($(#[$doc:meta])* $module:ident: $($name:ident = $bit:expr;)*) => {
        $(#[$doc])*
        pub mod $module {
            $(
                #[doc = concat!("Bit ", stringify!($bit), ".")]
                pub const $name: u32 = 1 << $bit;
            )*
            /// Names and values, for the comparison with the twin.
            pub const ALL: &[(&str, u32)] = &[$((stringify!($name), $name)),*];
        }
    };
}

flags! {
    /// Facts about a message or its envelope.
    message_flag:
    META = 0;
    SUMMARY = 1;
    SIDECHAIN = 2;
    BOUNDARY = 3;
    SYNTHETIC = 4;
    STRING_CONTENT = 5;
    EMPTY_CONTENT = 6;
    BLANK_CONTENT = 7;
    BAD_CONTENT = 8;
    HAS_TEXT = 9;
    HAS_MEDIA = 10;
    USER_INPUT = 11;
    UNKNOWN_KEYS = 12;
    HAS_USAGE = 13;
    OUTPUT_CONFIG = 15;
    OPENAI_CHAT = 17;
    EMPTY_CALLS = 18;
    OTHER_CONTENT = 19;
    REASONING = 20;
    FUNCTION_ROLE = 22;
    PREFIX = 23;
}

flags! {
    /// Facts about a content block, for the rules.
    block_flag:
    EMPTY_TEXT = 0;
    BLANK_TEXT = 1;
    TRAILING_SPACE = 2;
    UNKNOWN_KEYS = 3;
    BAD_ID = 4;
    MISSING_ID = 5;
    INPUT_NOT_OBJECT = 6;
    IS_ERROR = 7;
    HAS_SIGNATURE = 8;
    HAS_CITATIONS = 9;
    NESTED_MEDIA = 10;
    BAD_NESTED = 11;
    CACHE_5M = 12;
    CACHE_1H = 13;
    CACHE_BAD = 14;
    CLEARED = 16;
    OFFLOADED = 17;
    CITATIONS_ON = 19;
    NOT_A_BLOCK = 20;
    NESTED_CACHE = 21;
    BAD_ARGUMENTS = 23;
    BAD_FORMAT = 24;
    NULL_CONTENT = 25;
    CITATIONS_OFF = 26;
    CACHE_EDIT = 27;
    OVER_5MB = 28;
    OVER_10MB = 29;
    OVER_2000PX = 30;
    OVER_8000PX = 31;
}

flags! {
    /// Further facts about a content block: bits 32 and up of the contract with the twin.
    block_more:
    NESTED_BLANK = 0;
}

/// Bits of `block_flag` below those of `block_more`, where both are one number.
pub const MORE_SHIFT: u32 = 32;

/// One content block. `id` and `name` are string numbers, 0 none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockDigest {
    /// What it is.
    pub kind: BlockKind,
    /// Bits of [`block_more`]: they fit next to the kind, so that a digest does not grow.
    pub more: u16,
    /// Bits of [`block_flag`].
    pub flags: u32,
    /// Calibrated estimate.
    pub tokens: u32,
    /// Code points of what is counted.
    pub chars: u32,
    /// The call's id, on calls and results.
    pub id: u32,
    /// The tool's name; the type of a server tool's result.
    pub name: u32,
    /// By kind: image size, nested images, addition or removal.
    pub aux: u32,
}

/// One message. Token counts include the message's own overhead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageDigest {
    /// Who speaks.
    pub role: Role,
    /// Bits of [`message_flag`].
    pub flags: u32,
    /// Calibrated estimate.
    pub tokens: u32,
    /// Where its blocks begin in the ledger.
    pub first_block: u32,
    /// How many it has.
    pub block_count: u32,
    /// The response's message id as a string number, 0 none.
    pub response_id: u32,
    /// The entry's uuid as a string number, 0 none.
    pub uuid: u32,
    /// Input + cache creation + cache read + output, 0 none.
    pub usage: u32,
    /// Milliseconds since the epoch, 0 unknown.
    pub timestamp: i64,
}

impl MessageDigest {
    /// Whether all bits of `flags` are set.
    #[must_use]
    pub fn has(&self, flags: u32) -> bool {
        self.flags & flags == flags
    }

    /// Where its blocks are among those of the ledger.
    pub(crate) fn own_blocks(&self) -> std::ops::Range<usize> {
        let first = self.first_block as usize;
        first..first + self.block_count as usize
    }

    /// Whether it belongs to no round: metadata, or another thread than `own` (a sidechain bit).
    #[must_use]
    pub fn aside(&self, own: u32) -> bool {
        self.role == Role::None || (self.flags ^ own) & message_flag::SIDECHAIN != 0
    }
}

impl BlockDigest {
    /// All flags as one number, as the twin has them.
    #[must_use]
    pub fn all_flags(&self) -> u64 {
        u64::from(self.more) << MORE_SHIFT | u64::from(self.flags)
    }

    /// Whether all bits of `flags` are set.
    #[must_use]
    pub fn has(&self, flags: u32) -> bool {
        self.flags & flags == flags
    }

    /// Whether it is a call, of a client tool or of a server tool.
    #[must_use]
    pub fn is_call(&self) -> bool {
        matches!(self.kind, BlockKind::ToolUse | BlockKind::ServerToolUse)
    }

    /// Whether it is a result, of a client tool or of a server tool.
    #[must_use]
    pub fn is_result(&self) -> bool {
        matches!(
            self.kind,
            BlockKind::ToolResult | BlockKind::ServerToolResult
        )
    }
}
